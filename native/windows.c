/* windows.c: what posix.c has, for Windows. Paths are in UTF-8.
 *
 * What is otherwise there: a library that is loaded, or whose constants are mapped, cannot be made
 * shorter, since the system keeps the file; there are no forks, and no signals that threads could get.
 */
#if defined(_WIN32) && !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0602 /* Windows 8, as system.c */
#endif
#include "internal.h"

#ifdef _WIN32

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include <psapi.h> /* needs windows.h */

#define LONGEST 4096 /* characters of a path */

/* ---- texts ------------------------------------------------------------------------------------- */

static int to_utf8(const wchar_t *text, char *room, size_t size) {
    return WideCharToMultiByte(CP_UTF8, 0, text, -1, room, (int)size, NULL, NULL) > 0;
}

/* What the system says of this thread's last failure. */
static const char *last_failure(void) {
    static _Thread_local char said[512];
    wchar_t text[sizeof said / 3]; /* a character takes up to three bytes */
    DWORD code = GetLastError();
    DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    DWORD length = FormatMessageW(flags, NULL, code, 0, text, sizeof text / sizeof *text, NULL);
    while (length > 0 && (text[length - 1] <= L' ' || text[length - 1] == L'.'))
        length--; /* it ends with a line of its own */
    text[length] = L'\0';
    if (length == 0 || !to_utf8(text, said, sizeof said))
        snprintf(said, sizeof said, "error %lu of the system", (unsigned long)code);
    return said;
}

/* ---- files ------------------------------------------------------------------------------------- */

const char *smelt_file_open(const char *path, smelt_file *file) {
    wchar_t wide[LONGEST];
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, LONGEST) == 0)
        return last_failure();
    HANDLE handle = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                                OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    *file = (smelt_file)handle;
    return handle == INVALID_HANDLE_VALUE ? last_failure() : NULL;
}

void smelt_file_close(smelt_file file) { CloseHandle((HANDLE)file); }

const char *smelt_file_size(smelt_file file, int64_t *bytes) {
    LARGE_INTEGER size;
    if (GetFileType((HANDLE)file) != FILE_TYPE_DISK)
        return "no regular file";
    if (!GetFileSizeEx((HANDLE)file, &size))
        return last_failure();
    *bytes = size.QuadPart;
    return NULL;
}

int smelt_file_read(smelt_file file, int64_t at, void *data, size_t bytes) {
    OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
    DWORD count = 0;
    return ReadFile((HANDLE)file, data, (DWORD)bytes, &count, &place) && count == bytes;
}

/* The constants begin at multiples of 64 KiB, which is what the system asks of `at`. */
const char *smelt_file_map(smelt_file file, int64_t at, size_t bytes, void **mapping) {
    HANDLE section = CreateFileMappingW((HANDLE)file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (section == NULL)
        return last_failure();
    void *base = MapViewOfFile(section, FILE_MAP_READ, (DWORD)(at >> 32), (DWORD)at, bytes);
    const char *wrong = base == NULL ? last_failure() : NULL;
    CloseHandle(section); /* the view keeps it */
    *mapping = base;
    return wrong;
}

void smelt_file_unmap(void *mapping, size_t bytes) {
    (void)bytes;
    UnmapViewOfFile(mapping);
}

/* ---- CPUs, signals, forks ---------------------------------------------------------------------- */

/* Of the hardware threads of a core only one counts, as in cpus.c. Of a machine with more than 64 CPUs
 * it is those of one group. Limits of jobs, which containers have, are not asked for. */
int32_t smelt_system_cpus(void) {
    DWORD_PTR mine = 0, all = 0;
    DWORD bytes = 0;
    int32_t count = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) || mine == 0)
        mine = ~(DWORD_PTR)0; /* 0: it runs in several groups */
    GetLogicalProcessorInformation(NULL, &bytes);
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION *found = malloc(bytes);
    if (found != NULL && GetLogicalProcessorInformation(found, &bytes))
        for (DWORD i = 0; i < bytes / sizeof *found; i++)
            count += found[i].Relationship == RelationProcessorCore &&
                     (found[i].ProcessorMask & mine) != 0;
    free(found);
    return count > 0 ? count : 1;
}

void smelt_without_signals(void (*call)(smelt_pool *pool), smelt_pool *pool) { call(pool); }

void smelt_watch_forks(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)before, (void)in_parent, (void)in_child;
}

/* ---- libraries --------------------------------------------------------------------------------- */

#ifndef SMELT_ALONE

/* The library that has an address; flags: what becomes of it. NULL: none has. */
static HMODULE library_at(const void *address, DWORD flags) {
    HMODULE library = NULL;
    DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | flags;
    return GetModuleHandleExW(how, address, &library) ? library : NULL;
}

const char *smelt_library_of(const void *code, char *room, size_t size) {
    wchar_t wide[LONGEST];
    HMODULE library = library_at(code, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT);
    DWORD length = library == NULL ? 0 : GetModuleFileNameW(library, wide, LONGEST);
    return length > 0 && length < LONGEST && to_utf8(wide, room, size) ? room : NULL;
}

void smelt_keep_library(const void *address) { library_at(address, GET_MODULE_HANDLE_EX_FLAG_PIN); }

/* All libraries, in the order of the loader's list, which is that of loading. The documentation promises
 * no order: with another one two copies of the runtime may have a pool each, which is slower, not
 * wrong. The caller frees it. */
static HMODULE *list_libraries(DWORD *count) {
    DWORD room = 64 * sizeof(HMODULE), needed = 0;
    for (;;) {
        HMODULE *all = malloc(room);
        if (all == NULL || !K32EnumProcessModules(GetCurrentProcess(), all, room, &needed)) {
            free(all);
            return NULL;
        }
        *count = (needed < room ? needed : room) / sizeof *all;
        if (needed <= room)
            return all;
        free(all);
        room = 2 * needed; /* more may be loaded meanwhile */
    }
}

typedef smelt_pool *(*owner_function)(int32_t threads);

smelt_pool *smelt_ask_libraries(const char *function, int32_t threads) {
    smelt_pool *found = NULL;
    DWORD count = 0;
    HMODULE *all = list_libraries(&count);
    for (DWORD i = 0; all != NULL && i < count && found == NULL; i++) {
        HMODULE library = library_at(all[i], 0); /* kept loaded while it is asked */
        if (library == NULL)
            continue;
        FARPROC symbol = library == all[i] ? GetProcAddress(library, function) : NULL;
        if (symbol != NULL) {
            owner_function owner;
            memcpy(&owner, &symbol, sizeof owner);
            found = owner(threads);
        }
        FreeLibrary(library);
    }
    free(all);
    return found;
}

#endif

#endif
