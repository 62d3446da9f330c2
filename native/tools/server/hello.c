/* hello.c: who is at the other end, and whether it knows the token, which is never sent.
 *
 * Who is called says hello with the version of the protocol and a number that is used once; who
 * calls answers with one of its own and a proof: HMAC-SHA256 of both numbers by the token.
 */
#define _GNU_SOURCE
#include "server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBER 128 /* characters of the other side's number */

static void in_hex(const unsigned char *bytes, size_t size, char *text) {
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

bool random_number(char text[33]) {
    unsigned char bytes[16];
    int source = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool done = source >= 0 && read(source, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
    if (source >= 0)
        close(source);
    in_hex(bytes, done ? sizeof bytes : 0, text);
    return done || fail("RPCError", "/dev/urandom gives no numbers");
}

bool same(const char *a, const char *b) {
    size_t size = strlen(a);
    unsigned char differ = 0;
    if (strlen(b) != size)
        return false;
    for (size_t i = 0; i < size; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

static void prove(const char *token, const char *who, const char *server, const char *client,
                  char proof[65]) {
    char said[2 * NUMBER + 16];
    unsigned char digest[32];
    int size = snprintf(said, sizeof said, "%s %s %s", who, server, client);
    hmac_sha256(token, strlen(token), said, (size_t)size, digest);
    in_hex(digest, sizeof digest, proof);
}

/* A short message of somebody whom we do not know yet; freed by the caller. */
static char *receive(channel *c) {
    size_t size;
    uint64_t data;
    if (!channel_head(c, FIRST_TEXT, 0, &size, &data))
        return NULL;
    char *text = channel_take(c, size);
    if (text != NULL && !json_check(text, size)) {
        free(text);
        fail("RPCError", "%s sends what is no message", c->peer);
        return NULL;
    }
    return text;
}

/* Sends the other side away, who is told why. */
static bool refuse(channel *c, const char *why) {
    text t = {0};
    text_add(&t, "{\"error\": ");
    text_quote(&t, why);
    text_add(&t, "}");
    if (!t.failed)
        channel_send(c, t.data, t.size, 0);
    text_free(&t);
    return fail("RPCError", "%s: %s", c->peer, why);
}

static bool check_answer(channel *c, const char *token, const char *own, const char *text,
                         char number[NUMBER]) {
    char proof[65], given[65], why[160];
    int64_t version;
    if (!json_whole(json_get(text, "version"), &version) || version != PROTOCOL) {
        snprintf(why, sizeof why, "version %d of the protocol is spoken here, not %s", PROTOCOL,
                 json_shown(json_get(text, "version")));
        return refuse(c, why);
    }
    if (!json_text(json_get(text, "number"), number, NUMBER))
        return refuse(c, "an answer without a number");
    prove(token, "client", own, number, proof);
    if (*token != '\0' &&
        (!json_text(json_get(text, "proof"), given, sizeof given) || !same(proof, given)))
        return refuse(c, "the token is another one");
    return true;
}

bool welcome(channel *c, const char *token, hello *said) {
    char own[33], number[NUMBER], proof[65];
    c->deadline = after(PATIENCE);
    if (!random_number(own) ||
        !channel_say(c, "{\"smelt\": \"server\", \"version\": %d, \"number\": \"%s\", \"token\": %s}",
                     PROTOCOL, own, *token != '\0' ? "true" : "false"))
        return false;
    char *text = receive(c);
    bool known = text != NULL && check_answer(c, token, own, text, number);
    if (known) {
        if (!json_text(json_get(text, "match"), said->match, sizeof said->match))
            said->match[0] = '\0';
        said->limit = 0;
        json_number(json_get(text, "limit"), &said->limit);
        prove(token, "server", own, number, proof);
        known = channel_say(c, "{\"ok\": true, \"proof\": \"%s\"}", proof);
    }
    free(text);
    c->deadline = 0;
    return known;
}

/* What a tracker says first: its number. */
static bool hello_of(channel *c, const char *token, const char *text, char number[NUMBER]) {
    int64_t version;
    if (!json_is(json_get(text, "smelt"), "tracker"))
        return fail("RPCError", "%s is none", c->peer);
    if (!json_whole(json_get(text, "version"), &version) || version != PROTOCOL)
        return fail("RPCError", "%s speaks another version of the protocol than %d: the same smelt "
                    "is needed on both machines", c->peer, PROTOCOL);
    if (json_get(text, "token") != NULL && *json_get(text, "token") == 't' && *token == '\0')
        return fail("RPCError", "%s wants a token: set SMELT_RPC_TOKEN to the one that it was "
                    "started with", c->peer);
    return json_text(json_get(text, "number"), number, NUMBER) ||
           fail("RPCError", "%s sends what is no message", c->peer);
}

bool greet(channel *c, const char *token) {
    char own[33], number[NUMBER], proof[65], given[65], why[256];
    char *text = receive(c);
    bool known = text != NULL && hello_of(c, token, text, number) && random_number(own);
    free(text);
    if (!known)
        return false;
    prove(token, "client", number, own, proof);
    if (!channel_say(c, "{\"version\": %d, \"number\": \"%s\", \"proof\": \"%s\"}", PROTOCOL, own,
                     proof) ||
        (text = receive(c)) == NULL)
        return false;
    prove(token, "server", number, own, proof);
    if (json_get(text, "error") != NULL)
        known = fail("RPCError", "%s: %s", c->peer,
                     json_text(json_get(text, "error"), why, sizeof why) ? why : "it refuses");
    else if (*token != '\0' &&
             (!json_text(json_get(text, "proof"), given, sizeof given) || !same(proof, given)))
        known = fail("RPCError", "%s does not know the token", c->peer);
    free(text);
    return known;
}
