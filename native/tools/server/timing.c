/* timing.c: repeated timing, as smelt.runtime.evaluator does it. */
#define _GNU_SOURCE
#include "worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONGEST ((int64_t)1 << 24) /* runs of one measurement */

bool take_timing(call *c, timing *how) {
    static const char who[] = "time_evaluator";
    const value *prepare;
    *how = (timing){.number = 10, .repeat = 1, .cooldown_every = 1};
    return take_whole(c, who, "number", 1, &how->number) &&
           take_whole(c, who, "repeat", 1, &how->repeat) &&
           take_number(c, who, "min_repeat_ms", &how->least_ms) &&
           (take(c, "limit_zero_time_iterations"), true) &&
           take_number(c, who, "cooldown_interval_ms", &how->cooldown_ms) &&
           take_whole(c, who, "repeats_to_cooldown", 1, &how->cooldown_every) &&
           take_whole(c, who, "cache_flush_bytes", 0, &how->flush_bytes) &&
           ((prepare = take(c, "f_preproc")) == NULL || json_is(prepare->at, "") ||
            fail("InputError", "%s: f_preproc: there are no registered functions", who)) &&
           all_taken(c, who);
}

/* What must not be in a cache is driven out by something else. */
static bool flush(int64_t bytes) {
    volatile char *memory = bytes > 0 ? malloc((size_t)bytes) : NULL;
    if (bytes > 0 && memory == NULL)
        return no_memory("flushing the cache", (uint64_t)bytes);
    for (int64_t i = 0; i < bytes; i += 64)
        memory[i] = 1;
    free((void *)memory);
    return true;
}

/* Adds the times of `repeat` measurements. */
static bool add_times(call *c, const timing *how, int64_t number, double scale, timed run,
                      void *what) {
    double milliseconds;
    text_add(&c->made, "\"results\": {\"$\": \"tuple\", \"items\": [");
    for (int64_t i = 0; i < how->repeat; i++) {
        if (how->cooldown_ms > 0 && i > 0 && i % how->cooldown_every == 0) {
            struct timespec pause = {(time_t)(how->cooldown_ms / 1e3),
                                     (long)(fmod(how->cooldown_ms, 1e3) * 1e6)};
            nanosleep(&pause, NULL);
        }
        if (!flush(how->flush_bytes) || !run(what, number, &milliseconds))
            return false;
        text_add(&c->made, "%s%.17g", i > 0 ? ", " : "", milliseconds * scale);
        if (c->made.size > MOST_TEXT)
            return no_memory("times", c->made.size);
    }
    text_add(&c->made, "]}");
    return true;
}

bool add_evaluation(call *c, const timing *how, timed run, void *what) {
    int64_t number = how->number;
    double milliseconds = 0;
    while (how->least_ms > 0 && number < LONGEST) {
        if (!run(what, number, &milliseconds))
            return false;
        if (milliseconds * (double)number >= how->least_ms)
            break;
        number *= 2;
    }
    text_add(&c->made, "{\"$\": \"record\", \"name\": \"TimeEvaluation\", \"fields\": {");
    if (!add_times(c, how, number, 1e-3, run, what))
        return false;
    text_add(&c->made, "}}");
    return true;
}

bool add_benchmark(call *c, int64_t repeat, int64_t number, timed run, void *what) {
    timing how = {.repeat = repeat};
    double milliseconds = 0;
    if (!run(what, 1, &milliseconds) || (number == 0 && !run(what, 3, &milliseconds)))
        return false;
    if (number == 0) {
        double wanted = ceil(5.0 / (milliseconds > 1e-6 ? milliseconds : 1e-6));
        number = wanted > 100000 ? 100000 : wanted < 1 ? 1 : (int64_t)wanted;
    }
    text_add(&c->made, "{\"$\": \"record\", \"name\": \"BenchmarkResult\", \"fields\": {");
    if (!add_times(c, &how, number, 1, run, what))
        return false;
    text_add(&c->made, ", \"number\": %lld}}", (long long)number);
    return true;
}
