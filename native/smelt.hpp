// smelt.hpp: models in C++. The header of every exported model ends with it; C++17.
//
//     smelt::model net(net_info);
//     std::vector<smelt::array> results = net.run({smelt::array::of<float>({2, 4}, values)});
//     const float *y = results[0].data<float>();
//
// Everything owns its memory; what fails throws a smelt::error.
#if defined(__cplusplus) && !defined(SMELT_HPP)
#define SMELT_HPP

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace smelt {

class error : public std::runtime_error {
public:
    error(int32_t status, const std::string &text) : std::runtime_error(text), status_(status) {}
    // A smelt_status.
    int32_t status() const { return status_; }

private:
    int32_t status_;
};

inline void check(int32_t status) {
    if (status != SMELT_OK)
        throw error(status, smelt_last_error());
}

// The element type of a type of C++.
template <typename T> struct dtype_of;
template <> struct dtype_of<bool> { static constexpr int32_t value = SMELT_BOOL; };
template <> struct dtype_of<int8_t> { static constexpr int32_t value = SMELT_INT8; };
template <> struct dtype_of<int16_t> { static constexpr int32_t value = SMELT_INT16; };
template <> struct dtype_of<int32_t> { static constexpr int32_t value = SMELT_INT32; };
template <> struct dtype_of<int64_t> { static constexpr int32_t value = SMELT_INT64; };
template <> struct dtype_of<uint8_t> { static constexpr int32_t value = SMELT_UINT8; };
template <> struct dtype_of<uint16_t> { static constexpr int32_t value = SMELT_UINT16; };
template <> struct dtype_of<uint32_t> { static constexpr int32_t value = SMELT_UINT32; };
template <> struct dtype_of<uint64_t> { static constexpr int32_t value = SMELT_UINT64; };
template <> struct dtype_of<float> { static constexpr int32_t value = SMELT_FLOAT32; };
template <> struct dtype_of<double> { static constexpr int32_t value = SMELT_FLOAT64; };

// A tensor in row-major order, with its memory. Copies share it.
class array {
public:
    array(int32_t dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
        memory_ = own(smelt_alloc(bytes()));
        if (memory_ == nullptr)
            throw error(SMELT_NO_MEMORY, "no memory for an array");
    }

    // Of values in order; as many as the shape has.
    template <typename T> static array of(std::vector<int64_t> shape, const T *values) {
        array made(dtype_of<T>::value, std::move(shape));
        std::memcpy(made.memory_.get(), values, static_cast<size_t>(made.bytes()));
        return made;
    }

    int32_t dtype() const { return dtype_; }
    const std::vector<int64_t> &shape() const { return shape_; }

    int64_t size() const {
        int64_t count = 1;
        for (int64_t extent : shape_)
            count *= extent;
        return count;
    }

    int64_t bytes() const {
        int bits = dtype_ & 255;
        return size() * (bits < 8 ? 1 : bits / 8);
    }

    void *data() const { return memory_.get(); }

    // Throws where the elements are of another type.
    template <typename T> T *data() const {
        if (dtype_of<T>::value != dtype_)
            throw error(SMELT_BAD_DTYPE, std::string("the elements of this array are ") +
                                             smelt_dtype_name(dtype_));
        return static_cast<T *>(memory_.get());
    }

private:
    friend class model;
    array(int32_t dtype, std::vector<int64_t> shape, void *given)
        : dtype_(dtype), shape_(std::move(shape)), memory_(own(given)) {}

    static std::shared_ptr<void> own(void *memory) {
        return std::shared_ptr<void>(memory, [](void *m) { smelt_free(m); });
    }

    smelt_tensor view() { return {memory_.get(), rank(), shape_.data(), dtype_}; }
    int64_t rank() const { return static_cast<int64_t>(shape_.size()); }

    int32_t dtype_;
    std::vector<int64_t> shape_;
    std::shared_ptr<void> memory_;
};

// An opened model. Several threads may run it at once.
class model {
public:
    explicit model(const smelt_model_info &info) : info_(&info), model_(smelt_model_open(&info)) {
        if (model_ == nullptr)
            throw error(SMELT_FAILED, smelt_last_error());
    }

    const smelt_model_info &info() const { return *info_; }

    // At most so many threads for later runs; 0: all.
    void set_threads(int32_t count) { check(smelt_model_set_threads(model_.get(), count)); }

    // The results, for inputs in order.
    std::vector<array> run(std::vector<array> inputs) const {
        if (static_cast<int64_t>(inputs.size()) != info_->input_count)
            throw error(SMELT_BAD_ARGUMENT, std::string(info_->name) + ": " +
                                                std::to_string(inputs.size()) + " inputs, it has " +
                                                std::to_string(info_->input_count));
        std::vector<smelt_tensor> given, results;
        for (array &a : inputs)
            given.push_back(a.view());
        return info_->program == nullptr ? run_straight(given) : run_program(given);
    }

private:
    std::vector<array> run_straight(const std::vector<smelt_tensor> &inputs) const {
        int64_t total = 0;
        for (int64_t i = 0; i < info_->output_count; i++)
            total += info_->outputs[i].rank;
        std::vector<int64_t> extents(static_cast<size_t>(total) + 1);
        check(smelt_model_output_shapes(model_.get(), inputs.data(), extents.data()));
        std::vector<array> outputs;
        std::vector<smelt_tensor> views;
        const int64_t *at = extents.data();
        for (int64_t i = 0; i < info_->output_count; at += info_->outputs[i++].rank)
            outputs.emplace_back(info_->outputs[i].dtype,
                                 std::vector<int64_t>(at, at + info_->outputs[i].rank));
        for (array &a : outputs)
            views.push_back(a.view());
        check(smelt_model_run(model_.get(), inputs.data(), views.data()));
        return outputs;
    }

    // The run gives the memory of results whose sizes it decides.
    std::vector<array> run_program(const std::vector<smelt_tensor> &inputs) const {
        std::vector<std::vector<int64_t>> shapes;
        std::vector<smelt_tensor> views;
        for (int64_t i = 0; i < info_->output_count; i++)
            shapes.emplace_back(static_cast<size_t>(info_->outputs[i].rank));
        for (int64_t i = 0; i < info_->output_count; i++)
            views.push_back({nullptr, info_->outputs[i].rank, shapes[static_cast<size_t>(i)].data(),
                             info_->outputs[i].dtype});
        check(smelt_model_run(model_.get(), inputs.data(), views.data()));
        std::vector<array> outputs;
        for (size_t i = 0; i < views.size(); i++)
            outputs.push_back(array(views[i].dtype, std::move(shapes[i]), views[i].data));
        return outputs;
    }

    struct closing {
        void operator()(smelt_model *m) const { smelt_model_close(m); }
    };

    const smelt_model_info *info_;
    std::unique_ptr<smelt_model, closing> model_;
};

} // namespace smelt

#endif
