/* Runs the model on numbers of its own, and prints the results: a line for each output, with its
 * elements in order, then the place of the largest. */
#include <Arduino.h>

#include "src/example.h"

void setup() {
    Serial.begin(115200);
    while (!Serial) {
    }
}

void loop() {
    const unsigned long start = micros();
    const int32_t status = example_run();
    const unsigned long taken = micros() - start;
    if (status != 0) {
        Serial.print("failed with status ");
        Serial.println(status);
    }
    for (uint32_t output = 0; output < example_outputs(); output++) {
        uint32_t largest = 0;
        Serial.print("output ");
        Serial.print(output);
        for (uint32_t i = 0; i < example_count(output); i++) {
            Serial.print(' ');
            Serial.print(example_value(output, i), 6);
            if (example_value(output, i) > example_value(output, largest))
                largest = i;
        }
        Serial.print(" largest ");
        Serial.println(largest);
    }
    Serial.print("microseconds ");
    Serial.println(taken);
    delay(1000);
}
