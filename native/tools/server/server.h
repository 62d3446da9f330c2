/* server.h: what the files of the program smelt-server share.
 *
 *   main.c         options, connections, and a process for each of them
 *   tracker.c      the process that tells a tracker of this server
 *   hello.c        who is at the other end
 *   session.c      files of a session, and the process in which its libraries run
 *   worker.c       that process: objects, and what is asked of them
 *   libraries.c, executors.c    what libraries and executors can do
 *   profile.c      times of kernels
 *   arrays.c, kernels.c         arrays that stay here, candidates of tuning
 *   values.c       values in messages
 *   description.c  what a library's file says of itself
 *   channel.c      messages; json.c and sha256.c: what they are made of
 *
 * The protocol is that of smelt.rpc (src/smelt/rpc/wire.py). What comes from others is not trusted
 * before it was checked. Functions that may fail give false, or NULL, and leave a text in `failure`.
 */
#ifndef SMELT_SERVER_H
#define SMELT_SERVER_H

#include "../../smelt.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#define PROTOCOL 1
#define MOST_TEXT ((size_t)16 << 20)
#define MOST_DATA ((uint64_t)4 << 30)
#define FIRST_TEXT ((size_t)4096) /* bytes of JSON of somebody whom we do not know yet */
#define PATIENCE 10.0             /* seconds for an answer of somebody whom we do not know yet */

/* ---- failures ---------------------------------------------------------------------------------- */

/* kind: the class of the error that the client raises. */
extern struct failure {
    const char *kind;
    char text[2048];
} failure;

/* Keeps what is told of a failure; gives false. */
bool fail(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for memory that is not there. */
bool no_memory(const char *what, uint64_t bytes);

/* ---- json.c ------------------------------------------------------------------------------------ */

/* Whether a text, with a 0 behind it, is an object from its first character on. A value of a checked
 * text is the place where it begins. */
bool json_check(const char *text, size_t length);
/* What stands behind a value. */
const char *json_end(const char *value);
/* The member of a list or an object behind the previous one (NULL: the first), and where its name
 * stands; NULL: there is none. */
const char *json_member(const char *container, const char *previous, const char **name);
int64_t json_count(const char *container);
/* The member of a name; NULL: there is none, or this is no object. */
const char *json_get(const char *object, const char *name);
/* The characters of a string in UTF-8; false: it is none, longer, or has characters that no name
 * has. */
bool json_text(const char *value, char *into, size_t room);
bool json_is(const char *value, const char *text);
bool json_whole(const char *value, int64_t *number);
bool json_number(const char *value, double *number);
/* The beginning of a value for a message, until the next but one is asked for; of NULL "". */
const char *json_shown(const char *value);

/* A text that grows; what does not fit into memory makes it failed, and is left out. */
typedef struct text {
    char *data;
    size_t size, room;
    bool failed;
} text;

void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_quote(text *t, const char *string); /* as a JSON string */
void text_json(text *t, const char *value);   /* a value of a checked text */
void text_join(text *t, const text *other);
void text_free(text *t);

/* ---- sha256.c ---------------------------------------------------------------------------------- */

void sha256(const void *data, size_t size, unsigned char digest[32]);
void hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                 unsigned char digest[32]);

/* ---- channel.c --------------------------------------------------------------------------------- */

/* One end of a connection. `over` says why it is of no use any more. */
typedef struct channel {
    int end;
    int stop;         /* something to read there, or its end, ends all waiting; -1: nothing */
    int asker;        /* the same of who waits for what is read here */
    int64_t deadline; /* on the clock of `now`; 0: none */
    enum { OPEN, GONE, LATE, STOPPED, STRANGE, LEFT } over;
    char peer[80]; /* for messages */
} channel;

int64_t now(void); /* nanoseconds since some moment */
int64_t after(double seconds);
bool channel_wait(channel *c, short events);
/* A message's head: how long its text is, then its data. */
bool channel_head(channel *c, size_t most_text, uint64_t most_data, size_t *text, uint64_t *data);
bool channel_read(channel *c, void *into, size_t size);
/* So many bytes, with a 0 behind them, freed by the caller; memory is taken as they come. Where
 * there is none, they are read all the same. */
char *channel_take(channel *c, uint64_t size);
bool channel_skip(channel *c, uint64_t size);
bool channel_write(channel *c, const void *from, size_t size);
/* A message, or its text alone where `data` bytes are yet to be written. */
bool channel_send(channel *c, const char *text, size_t size, uint64_t data);
bool channel_send_all(channel *c, const char *text, size_t size, struct iovec *data, int count);
bool channel_say(channel *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool channel_error(channel *c); /* sends `failure` */

/* ---- hello.c ----------------------------------------------------------------------------------- */

typedef struct hello {
    char match[80];
    double limit;
} hello;

bool random_number(char text[33]);
/* Greets who has called; what it says of itself. */
bool welcome(channel *c, const char *token, hello *said);
/* Says hello to a tracker. */
bool greet(channel *c, const char *token);
bool same(const char *a, const char *b); /* in a time that does not tell where they differ */

/* ---- main.c ------------------------------------------------------------------------------------ */

#define MOST_SESSIONS 64
#define FOLDER_ROOM 256

/* In memory that all processes of the server share. */
typedef struct shared {
    /* Of a server that belongs to a tracker: how often it was offered, and to whom it belongs:
     * nobody, whoever has the match, or a process. */
    _Atomic uint32_t turn;
    char match[33];
    char folders[MOST_SESSIONS][FOLDER_ROOM]; /* of sessions; "": none */
} shared;

#define TURN_BITS 22 /* of a process's number on Linux */
#define NOBODY 0u
#define ANYBODY 1u
#define TURN_OF(turn) ((turn) & ((1u << TURN_BITS) - 1))

typedef struct options {
    const char *host, *key, *address;
    char tracker_host[256], tracker_port[8], token[4096];
    int port, port_end;
    bool silent;
} options;

/* A line of what happens. */
void say(const options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the server says of its machine, as JSON. */
void describe(text *t);
/* A process of its own, which SIGINT and the like do not end; its number, 0 in it. */
pid_t split(void);
/* Gives up what the processes share, which libraries have nothing to do with. */
void leave_shared(void);

/* ---- the processes ----------------------------------------------------------------------------- */

/* Serves until the other side is gone. */
void serve_session(channel *client, const options *o, const hello *said, char *folder);
_Noreturn void serve_worker(int end, const char *folder);
/* Tells the tracker of this server; wake: has a byte where the server is free again. */
_Noreturn void serve_tracker(const options *o, shared *all, int stop, int wake);
void remove_folder(const char *folder);

#endif
