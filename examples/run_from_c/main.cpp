// main.cpp: the same in C++.
#include "net.h"
#include <cstdio>

int main() {
    const float x[2][4] = {{1, 2, 3, 4}, {4, 3, 2, 1}};
    try {
        smelt::model net(net_info);
        std::vector<smelt::array> results = net.run({smelt::array::of({2, 4}, *x)});
        const float *y = results[0].data<float>();
        for (int row = 0; row < 2; row++, y += 3)
            std::printf("%.3f %.3f %.3f\n", y[0], y[1], y[2]);
    } catch (const smelt::error &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
