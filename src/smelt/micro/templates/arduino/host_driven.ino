/* Serves the model over Serial: src/smelt_serial.h describes the protocol. */
#include <Arduino.h>

#include "src/smelt_serial.h"

#define QUIET_MS 250

extern "C" int smelt_main(void);

extern "C" int smelt_get(void) {
    const unsigned long start = millis();
    while (Serial.available() == 0) {
        if (millis() - start > QUIET_MS)
            return SMELT_QUIET;
    }
    return Serial.read();
}

extern "C" void smelt_put(uint8_t byte) { Serial.write(byte); }

extern "C" uint32_t smelt_ticks(void) { return micros(); }

extern "C" uint32_t smelt_ticks_per_second(void) { return 1000000u; }

extern "C" uint32_t smelt_stack_used(uint32_t *watched) {
    *watched = 0;
    return 0;
}

void setup() {
    Serial.begin(115200);
    while (!Serial) {
    }
}

void loop() { smelt_main(); }
