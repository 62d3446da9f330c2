/* channel.c: messages between machines, and between the processes of a session.
 *
 *     "SMRP", u32 bytes of JSON, u64 bytes of data; JSON; data        all numbers little-endian
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define MAGIC "SMRP"
#define HEAD 16
#define STEP ((size_t)1 << 20) /* bytes that memory is taken for at first */

struct failure failure;

bool fail(const char *kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    failure.kind = kind;
    vsnprintf(failure.text, sizeof failure.text, format, arguments);
    va_end(arguments);
    return false;
}

bool no_memory(const char *what, uint64_t bytes) {
    return fail("RuntimeFailure", "no memory for %s of %llu bytes", what, (unsigned long long)bytes);
}

/* ---- time -------------------------------------------------------------------------------------- */

int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t after(double seconds) {
    return seconds > 0 && seconds < 1e9 ? now() + (int64_t)(seconds * 1e9) : 0;
}

/* ---- waiting ----------------------------------------------------------------------------------- */

static bool lost(channel *c, const char *why) {
    c->over = GONE;
    return fail("RPCError", "the connection with %s is lost: %s", c->peer, why);
}

bool channel_wait(channel *c, short events) {
    struct pollfd ends[] = {{c->end, events, 0}, {c->stop, POLLIN, 0}, {c->asker, POLLIN, 0}};
    for (;;) {
        int64_t left = c->deadline == 0 ? -1 : (c->deadline - now() + 999999) / 1000000;
        if (c->deadline != 0 && left <= 0) {
            c->over = LATE;
            return fail("RPCError", "%s does not answer", c->peer);
        }
        int found = poll(ends, 3, (int)(left < INT32_MAX ? left : INT32_MAX));
        if (found < 0 && errno != EINTR)
            return lost(c, strerror(errno));
        if (found > 0 && ends[1].revents == 0 && ends[0].revents != 0)
            return true;
        if (found > 0) {
            c->over = ends[1].revents != 0 ? STOPPED : LEFT;
            return fail("RPCError", "the server has ended");
        }
    }
}

/* ---- bytes ------------------------------------------------------------------------------------- */

bool channel_read(channel *c, void *into, size_t size) {
    for (char *at = into; size > 0;) {
        if (!channel_wait(c, POLLIN))
            return false;
        ssize_t got = recv(c->end, at, size, MSG_DONTWAIT);
        if (got == 0) {
            c->over = GONE;
            return fail("RPCError", "%s has closed the connection", c->peer);
        }
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return lost(c, strerror(errno));
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
    return true;
}

bool channel_skip(channel *c, uint64_t size) {
    char waste[16384];
    for (; size > 0; size -= size < sizeof waste ? size : sizeof waste)
        if (!channel_read(c, waste, size < sizeof waste ? (size_t)size : sizeof waste))
            return false;
    return true;
}

char *channel_take(channel *c, uint64_t size) {
    size_t have = 0, room = 0;
    char *made = NULL;
    do {
        size_t more = have == 0 ? STEP : have;
        more = size - have < more ? (size_t)(size - have) : more;
        char *larger = have + more < SIZE_MAX - 1 ? realloc(made, have + more + 1) : NULL;
        if (larger == NULL) {
            free(made);
            if (channel_skip(c, size - have))
                no_memory("a message", size);
            return NULL;
        }
        made = larger;
        room = have + more;
        if (!channel_read(c, made + have, more)) {
            free(made);
            return NULL;
        }
        have = room;
    } while (have < size);
    made[have] = '\0';
    return made;
}

static bool write_all(channel *c, struct iovec *parts, size_t count) {
    while (count > 0) {
        if (parts->iov_len == 0) {
            parts++, count--;
            continue;
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count < 64 ? count : 64};
        ssize_t sent = sendmsg(c->end, &message, MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            if (!channel_wait(c, POLLOUT))
                return false;
        } else if (sent < 0 && errno != EINTR) {
            return lost(c, strerror(errno));
        }
        for (size_t left = sent > 0 ? (size_t)sent : 0; left > 0;) {
            size_t taken = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + taken;
            parts->iov_len -= taken;
            left -= taken;
            if (parts->iov_len == 0)
                parts++, count--;
        }
    }
    return true;
}

bool channel_write(channel *c, const void *from, size_t size) {
    struct iovec part = {(void *)(uintptr_t)from, size};
    return write_all(c, &part, 1);
}

/* ---- messages ---------------------------------------------------------------------------------- */

bool channel_head(channel *c, size_t most_text, uint64_t most_data, size_t *text, uint64_t *data) {
    unsigned char head[HEAD];
    if (!channel_read(c, head, sizeof head))
        return false;
    *text = 0;
    *data = 0;
    for (int i = 3; i >= 0; i--)
        *text = *text << 8 | head[4 + i];
    for (int i = 7; i >= 0; i--)
        *data = *data << 8 | head[8 + i];
    c->over = STRANGE;
    if (memcmp(head, MAGIC, 4) != 0)
        return fail("RPCError", "%s does not speak smelt's protocol", c->peer);
    if (*text > most_text || *data > most_data)
        return fail("RPCError", "%s sends a message of %zu and %llu bytes; at most %zu and %llu are taken",
                    c->peer, *text, (unsigned long long)*data, most_text,
                    (unsigned long long)most_data);
    c->over = OPEN;
    return true;
}

static bool send_parts(channel *c, struct iovec *parts, int count, uint64_t data) {
    unsigned char head[HEAD] = MAGIC;
    for (int i = 0; i < 4; i++)
        head[4 + i] = (unsigned char)(parts[1].iov_len >> 8 * i);
    for (int i = 0; i < 8; i++)
        head[8 + i] = (unsigned char)(data >> 8 * i);
    parts[0] = (struct iovec){head, sizeof head};
    return write_all(c, parts, (size_t)count);
}

bool channel_send(channel *c, const char *text, size_t size, uint64_t data) {
    struct iovec parts[] = {{NULL, 0}, {(void *)(uintptr_t)text, size}};
    return send_parts(c, parts, 2, data);
}

bool channel_send_all(channel *c, const char *text, size_t size, struct iovec *data, int count) {
    uint64_t bytes = 0;
    struct iovec *parts = calloc((size_t)count + 2, sizeof *parts);
    if (parts == NULL)
        return no_memory("an answer", size);
    parts[1] = (struct iovec){(void *)(uintptr_t)text, size};
    for (int i = 0; i < count; i++) {
        parts[i + 2] = data[i];
        bytes += data[i].iov_len;
    }
    bool sent = send_parts(c, parts, count + 2, bytes);
    free(parts);
    return sent;
}

bool channel_say(channel *c, const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return channel_send(c, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1, 0);
}

bool channel_error(channel *c) {
    text t = {0};
    text_add(&t, "{\"error\": ");
    text_quote(&t, failure.text);
    text_add(&t, ", \"kind\": \"%s\"}", failure.kind);
    bool sent = t.failed ? channel_say(c, "{\"error\": \"no memory\", \"kind\": \"RuntimeFailure\"}")
                         : channel_send(c, t.data, t.size, 0);
    text_free(&t);
    return sent;
}
