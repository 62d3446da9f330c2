/* cpus.c: how many CPUs this process may use. Three things say so, and the least of them counts:
 * the CPUs of its affinity, of the hardware threads of one core only one, because two do not compute
 * faster than one; and the quotas of its cgroup and of all that this one is in.
 */
#define _GNU_SOURCE
#include "internal.h"

#ifdef __linux__

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Reads up to two numbers from a file; how many there are. */
static int read_numbers(const char *folder, const char *name, long long *a, long long *b) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    int count = fscanf(file, "%lld %lld", a, b);
    fclose(file);
    return count;
}

/* The CPUs that the quota of one cgroup comes to, rounded up; INT_MAX where it has none. */
static int quota_of_cgroup(const char *folder) {
    long long quota, period, unused;
    int found = read_numbers(folder, "cpu.max", &quota, &period) == 2 ||
                (read_numbers(folder, "cpu.cfs_quota_us", &quota, &unused) == 1 &&
                 read_numbers(folder, "cpu.cfs_period_us", &period, &unused) == 1);
    if (!found || quota <= 0 || period <= 0 || quota / period >= INT_MAX)
        return INT_MAX;
    return (int)((quota + period - 1) / period);
}

/* The least quota of a cgroup and those around it, up to the root of its hierarchy. Inside of a
 * container the folders near that root are the container's own, and the path may not exist there. */
static int least_quota(const char *root, const char *hierarchy, const char *cgroup) {
    char folder[PATH_MAX];
    int base = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s", root, hierarchy);
    if (snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s", root, hierarchy, cgroup) >=
        (int)sizeof folder)
        return INT_MAX;
    int least = INT_MAX;
    for (char *end = folder + strlen(folder); end != NULL && end >= folder + base;
         end = strrchr(folder, '/')) {
        *end = '\0';
        int quota = quota_of_cgroup(folder);
        least = quota < least ? quota : least;
    }
    return least;
}

/* A line of /proc/self/cgroup is "number:controllers:path"; version 2 names no controllers. */
static int quota_of_process(const char *root) {
    char line[PATH_MAX + 256];
    int least = INT_MAX;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *rest = line;
        strsep(&rest, ":");
        char *controllers = strsep(&rest, ":");
        if (rest == NULL)
            continue;
        int is_v2 = *controllers == '\0', is_cpu = 0;
        for (char *c = strsep(&controllers, ","); c != NULL; c = strsep(&controllers, ","))
            is_cpu |= strcmp(c, "cpu") == 0;
        /* Version 2 stands beside version 1 in a folder of its own. */
        const char *const hierarchies[] = {"", "/unified", "/cpu"};
        for (int i = is_v2 ? 0 : 2; i < (is_v2 ? 2 : is_cpu ? 3 : 2); i++) {
            int quota = least_quota(root, hierarchies[i], rest);
            least = quota < least ? quota : least;
        }
    }
    if (file != NULL)
        fclose(file);
    return least;
}

/* Takes the hardware threads of one CPU's core out of a set, by a list like "0-1,4". */
static void remove_core(const char *root, int cpu, cpu_set_t *set) {
    char path[PATH_MAX];
    CPU_CLR(cpu, set);
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
             cpu);
    FILE *file = fopen(path, "re");
    int first, next = ',';
    while (file != NULL && next == ',' && fscanf(file, "%d", &first) == 1) {
        int last = first;
        next = fgetc(file);
        if (next == '-' && fscanf(file, "%d", &last) == 1)
            next = fgetc(file);
        for (int i = first; i >= 0 && i <= last && i < CPU_SETSIZE; i++)
            CPU_CLR(i, set);
    }
    if (file != NULL)
        fclose(file);
}

int32_t smelt_count_cpus(const char *root, const void *cpus) {
    cpu_set_t left;
    memcpy(&left, cpus, sizeof left);
    int count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &left)) {
            remove_core(root, cpu, &left);
            count++;
        }
    int quota = quota_of_process(root);
    return quota < count ? quota : count;
}

int32_t smelt_cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return smelt_count_cpus("", &set);
    return smelt_system_cpus();
}

#else

int32_t smelt_count_cpus(const char *root, const void *cpus) {
    (void)root, (void)cpus;
    return smelt_cpu_count();
}

int32_t smelt_cpu_count(void) { return smelt_system_cpus(); }

#endif
