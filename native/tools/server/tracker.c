/* tracker.c: the process that tells a tracker of this server, again and again. */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define AGAIN 1000 /* milliseconds between two tries to reach it, and two messages */

/* A connection with the tracker, in c->end. */
static bool reach(channel *c, const options *o) {
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int error = getaddrinfo(o->tracker_host, o->tracker_port, &wanted, &found), broken = 0;
    socklen_t size = sizeof broken;
    snprintf(c->peer, sizeof c->peer, "the tracker at %.50s:%s", o->tracker_host, o->tracker_port);
    if (error != 0)
        return fail("RPCError", "%s cannot be reached: %s", c->peer, gai_strerror(error));
    c->end = socket(found->ai_family, SOCK_STREAM, 0);
    fcntl(c->end, F_SETFL, O_NONBLOCK); /* messages are sent and received so anyway */
    c->deadline = after(PATIENCE);
    bool made = connect(c->end, found->ai_addr, found->ai_addrlen) == 0;
    if (!made && errno == EINPROGRESS && channel_wait(c, POLLOUT)) {
        made = getsockopt(c->end, SOL_SOCKET, SO_ERROR, &broken, &size) == 0 && broken == 0;
        errno = broken;
    }
    freeaddrinfo(found);
    return made || fail("RPCError", "%s cannot be reached: %s", c->peer, strerror(errno));
}

/* Makes the server anybody's who has a new match, unless a session has it. */
static bool offer(shared *all) {
    char match[33];
    uint32_t turn = atomic_load(&all->turn);
    if (TURN_OF(turn) > ANYBODY || !random_number(match))
        return false;
    uint32_t next = turn - TURN_OF(turn) + (1u << TURN_BITS);
    if (!atomic_compare_exchange_strong(&all->turn, &turn, next | NOBODY))
        return false; /* somebody has come just now */
    memcpy(all->match, match, sizeof match);
    atomic_store(&all->turn, next | ANYBODY);
    return true;
}

/* Sends a message of what this server is, and waits for the answer. */
static bool tell(channel *c, const options *o, const char *what, const char *match) {
    text t = {0};
    text_add(&t, "{\"do\": \"%s\", \"key\": ", what);
    text_quote(&t, o->key);
    text_add(&t, ", \"port\": %d, \"match\": \"%s\", \"address\": ", o->port, match);
    if (o->address == NULL)
        text_add(&t, "null");
    else
        text_quote(&t, o->address);
    text_add(&t, ", \"about\": ");
    describe(&t);
    text_add(&t, "}");
    bool sent = t.failed ? no_memory("a message", t.size) : channel_send(c, t.data, t.size, 0);
    text_free(&t);
    return sent;
}

/* Keeps a connection; false: it is lost. */
static bool stay(channel *c, const options *o, shared *all, int wake) {
    bool told = false;
    for (;;) {
        size_t size;
        uint64_t data;
        char waste[64];
        c->deadline = after(PATIENCE);
        uint32_t holder = TURN_OF(atomic_load(&all->turn));
        bool sent;
        if ((holder == NOBODY || (!told && holder == ANYBODY)) && offer(all))
            sent = tell(c, o, "put", all->match);
        else if (!told)
            sent = tell(c, o, "busy", "");
        else
            sent = channel_say(c, "{\"do\": \"here\", \"busy\": %s}", holder > ANYBODY ? "true" : "false");
        told = true;
        if (!sent || !channel_head(c, MOST_TEXT, 0, &size, &data) || !channel_skip(c, size))
            return false;
        struct pollfd ends[] = {{wake, POLLIN, 0}, {c->stop, POLLIN, 0}, {c->end, POLLIN, 0}};
        poll(ends, 3, AGAIN);
        if (ends[0].revents != 0)
            while (read(wake, waste, sizeof waste) > 0)
                continue;
        if (ends[2].revents != 0) /* it says nothing unasked */
            return fail("RPCError", "%s has closed the connection", c->peer);
    }
}

void serve_tracker(const options *o, shared *all, int stop, int wake) {
    bool complained = false;
    for (;;) {
        channel c = {.end = -1, .stop = stop, .asker = -1};
        if (reach(&c, o) && greet(&c, o->token)) {
            complained = false;
            stay(&c, o, all, wake);
        }
        if (c.end >= 0)
            close(c.end);
        struct pollfd end = {stop, POLLIN, 0};
        if (c.over == STOPPED || poll(&end, 1, 0) != 0)
            exit(0);
        if (!complained)
            say(o, "%s; trying again", failure.text);
        complained = true;
        poll(&end, 1, AGAIN);
    }
}
