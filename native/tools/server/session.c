/* session.c: a session: files in a folder of its own, and a process in which libraries run.
 *
 * This process loads nothing, so that it stays whatever a library does. Data goes through it in
 * pieces: it never holds more of a message than its text.
 */
#define _GNU_SOURCE
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#define ENDS 1.0 /* seconds that a process has to end by itself */
#define PIECE ((size_t)256 << 10)

typedef struct session {
    channel *client;
    char *folder;
    int files; /* the folder, open */
    pid_t process; /* 0: there is none */
    channel worker;
    bool midway; /* of an answer, so that nothing else can be sent */
} session;

static char piece[PIECE];

static size_t at_most(uint64_t left) { return left < PIECE ? (size_t)left : PIECE; }

/* ---- the process ------------------------------------------------------------------------------- */

static const char *name_of(int number) {
    static const struct {
        int number;
        const char *name;
    } known[] = {{SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
                 {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"},
                 {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"},
                 {SIGXCPU, "SIGXCPU"}, {SIGQUIT, "SIGQUIT"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number)
            return known[i].name;
    return "a signal";
}

static bool start(session *s) {
    int ends[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return fail("RPCError", "no process can be started: %s", strerror(errno));
    s->process = split();
    if (s->process == 0) {
        close(ends[0]);
        close(s->client->end);
        close(s->client->stop);
        close(s->files);
        char folder[FOLDER_ROOM];
        strcpy(folder, s->folder);
        leave_shared();
        fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        signal(SIGTERM, SIG_DFL);
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody else would end it if this process is killed */
#endif
        if (getppid() != parent)
            _exit(0);
        serve_worker(ends[1], folder);
    }
    close(ends[1]);
    s->worker = (channel){.end = ends[0], .stop = s->client->stop, .asker = -1,
                          .peer = "the process of this session"};
    if (s->process > 0)
        return true;
    close(ends[0]);
    s->process = 0;
    return fail("RPCError", "no process can be started: %s", strerror(errno));
}

/* Ends the process, by force or when it does so by itself, and tells how it ended. */
static bool end(session *s, bool force) {
    int how = 0;
    char text[64];
    if (s->process == 0)
        return false;
    close(s->worker.end);
    for (int64_t last = after(ENDS); !force && waitpid(s->process, &how, WNOHANG) == 0;) {
        struct timespec shortly = {0, 1000000};
        nanosleep(&shortly, NULL);
        force = now() > last;
    }
    if (force && kill(s->process, SIGKILL) == 0)
        while (waitpid(s->process, &how, 0) < 0 && errno == EINTR)
            continue;
    s->process = 0;
    if (WIFSIGNALED(how))
        snprintf(text, sizeof text, "was ended by %s", name_of(WTERMSIG(how)));
    else
        snprintf(text, sizeof text, "ended with exit code %d", WEXITSTATUS(how));
    return fail("RPCError", "the process of this session %s; what was loaded in it is gone, the next "
                "load starts another one", text);
}

/* Waits until an answer begins. Who waits for an answer says nothing, but for its end. */
static bool answered(session *s, double limit) {
    channel *c = s->client, *w = &s->worker;
    int64_t own = after(limit);
    bool earlier = own != 0 && (c->deadline == 0 || own < c->deadline);
    w->deadline = earlier ? own : c->deadline;
    w->asker = c->end;
    bool begins = channel_wait(w, POLLIN);
    w->asker = -1;
    w->deadline = c->deadline;
    if (begins)
        return true;
    if (w->over == STOPPED || (w->over == LATE && !earlier))
        c->over = w->over;
    bool late = w->over == LATE;
    end(s, true);
    return late ? fail("RPCError", "the candidate does not answer after %g s", limit)
                : fail("RPCError", "%s has gone", c->peer);
}

/* Has the process answer a message, of whose data `left` bytes are yet to come. */
static bool ask(session *s, const char *message, size_t size, uint64_t *left) {
    double limit = 0;
    uint64_t data = 0;
    json_number(json_get(message, "limit"), &limit);
    if (s->process == 0 && !start(s))
        return false;
    bool there = channel_send(&s->worker, message, size, *left);
    while (there && *left > 0) {
        size_t count = at_most(*left);
        if (!channel_read(s->client, piece, count))
            return false;
        *left -= count;
        there = channel_write(&s->worker, piece, count);
    }
    if (there && !answered(s, limit))
        return false;
    there = there && channel_head(&s->worker, MOST_TEXT, MOST_DATA, &size, &data);
    char *answer = there ? channel_take(&s->worker, size) : NULL;
    if (answer == NULL)
        return end(s, s->worker.over != GONE);
    s->midway = true;
    there = channel_send(s->client, answer, size, data);
    free(answer);
    for (size_t count; there && data > 0; data -= count) {
        count = at_most(data);
        there = channel_read(&s->worker, piece, count) && channel_write(s->client, piece, count);
    }
    s->midway = !there;
    return there;
}

/* ---- files ------------------------------------------------------------------------------------- */

static bool failed(void) { return fail("RPCError", "%s", strerror(errno)); }

/* The name of a file of this session in a message. */
static bool name_in(const char *message, char name[NAME_MAX + 1]) {
    const char *given = json_get(message, "path");
    if (given == NULL || *given != '"')
        return fail("RPCError", "a message that asks for nothing: path is no text");
    bool plain = json_text(given, name, NAME_MAX + 1);
    if (plain && *name != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
        strpbrk(name, "/\\") == NULL)
        return true;
    return fail("RPCError", "'%.300s' is no name of a file; sessions have one folder without others",
                plain ? name : "?");
}

static bool upload(session *s, const char *message, uint64_t *left) {
    char name[NAME_MAX + 1];
    const char *more = json_get(message, "more");
    bool append = more != NULL && *more == 't';
    if (!name_in(message, name))
        return false;
    if (!append) /* a file of its own: who has mapped the old one keeps that */
        unlinkat(s->files, name, 0);
    int file = openat(s->files, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
                      (append ? O_APPEND : O_EXCL), 0600);
    if (file < 0)
        return failed();
    bool done = true;
    while (done && *left > 0) {
        size_t count = at_most(*left), written = 0;
        if (!(done = channel_read(s->client, piece, count)))
            break;
        *left -= count;
        for (ssize_t n; done && written < count; written += done ? (size_t)n : 0)
            done = (n = write(file, piece + written, count - written)) > 0 || failed();
    }
    close(file);
    return done && channel_say(s->client, "{\"value\": null}");
}

static bool download(session *s, const char *message) {
    char name[NAME_MAX + 1];
    int64_t start, count;
    struct stat about;
    if (!name_in(message, name))
        return false;
    if (!json_whole(json_get(message, "start"), &start) || start < 0 ||
        !json_whole(json_get(message, "count"), &count) || count < 0)
        return fail("RPCError", "a message that asks for nothing: start and count are no numbers");
    int file = openat(s->files, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return failed();
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(file);
        return fail("RPCError", "'%s' is no file", name);
    }
    int64_t rest = about.st_size > start ? about.st_size - start : 0;
    count = count < rest ? count : rest;
    count = count < (int64_t)MOST_DATA ? count : (int64_t)MOST_DATA;
    char text[64];
    int size = snprintf(text, sizeof text, "{\"value\": %lld}", (long long)about.st_size);
    s->midway = true;
    bool done = channel_send(s->client, text, (size_t)size, (uint64_t)count);
    while (done && count > 0) {
        ssize_t got = pread(file, piece, at_most((uint64_t)count), start);
        done = got > 0 && channel_write(s->client, piece, (size_t)got);
        start += got;
        count -= got;
    }
    s->midway = !done;
    close(file);
    return done;
}

static bool delete(session *s, const char *message) {
    char name[NAME_MAX + 1];
    if (!name_in(message, name))
        return false;
    if (unlinkat(s->files, name, 0) != 0 && errno != ENOENT)
        return failed();
    return channel_say(s->client, "{\"value\": null}");
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool list(session *s) {
    int again = openat(s->files, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    char **names = NULL, **more = NULL;
    size_t count = 0;
    text t = {0};
    if (folder == NULL)
        return failed();
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if ((more = realloc(names, (count + 1) * sizeof *names)) == NULL)
            break;
        names = more;
        if ((names[count] = strdup(entry->d_name)) != NULL)
            count++;
    }
    closedir(folder);
    if (count > 0)
        qsort(names, count, sizeof *names, by_name);
    text_add(&t, "{\"value\": [");
    for (size_t i = 0; i < count; i++) {
        text_add(&t, i > 0 ? ", " : "");
        text_quote(&t, names[i]);
        free(names[i]);
    }
    free(names);
    text_add(&t, "]}");
    bool sent = t.failed ? no_memory("a list", t.size) : channel_send(s->client, t.data, t.size, 0);
    text_free(&t);
    return sent;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind, (void)place;
    remove(path);
    return 0;
}

void remove_folder(const char *folder) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* ---- serving ----------------------------------------------------------------------------------- */

static bool answer(session *s, const char *message, size_t size, uint64_t *left) {
    const char *what = json_get(message, "do");
    if (json_is(what, "upload"))
        return upload(s, message, left);
    bool idle = json_is(what, "forget") && s->process == 0;
    bool here = idle || json_is(what, "download") || json_is(what, "remove") || json_is(what, "list");
    if (!here)
        return ask(s, message, size, left);
    bool rest = channel_skip(s->client, *left); /* none of these has data */
    *left = 0;
    if (!rest || json_is(what, "download"))
        return rest && download(s, message);
    if (json_is(what, "remove"))
        return delete(s, message);
    return idle ? channel_say(s->client, "{\"value\": null}") : list(s);
}

/* Answers one message; false: it was the last one. */
static bool serve_one(session *s) {
    size_t size;
    uint64_t left;
    channel *c = s->client;
    if (!channel_head(c, MOST_TEXT, MOST_DATA, &size, &left))
        return false;
    char *message = channel_take(c, size);
    if (message == NULL || !json_check(message, size) || json_is(json_get(message, "do"), "end")) {
        free(message);
        return false;
    }
    if (!answer(s, message, size, &left) && c->over == OPEN && !s->midway) {
        struct failure why = failure;
        if (channel_skip(c, left)) {
            failure = why;
            channel_error(c);
        }
    }
    free(message);
    return c->over == OPEN && !s->midway;
}

static bool begin(session *s) {
    const char *place = getenv("TMPDIR");
    place = place != NULL && strlen(place) < FOLDER_ROOM - 32 ? place : "/tmp";
    snprintf(s->folder, FOLDER_ROOM, "%s/smelt-rpc-XXXXXX", place);
    if (mkdtemp(s->folder) == NULL ||
        (s->files = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return fail("RPCError", "no session can be begun: %s", strerror(errno));
    text t = {0};
    text_add(&t, "{\"value\": ");
    describe(&t);
    text_add(&t, "}");
    bool begun = t.failed ? no_memory("an answer", t.size)
                          : channel_send(s->client, t.data, t.size, 0);
    text_free(&t);
    return begun;
}

void serve_session(channel *client, const options *o, const hello *said, char *folder) {
    session s = {.client = client, .folder = folder, .files = -1};
    client->deadline = after(said->limit);
    say(o, "%s: a session", client->peer);
    if (!begin(&s))
        channel_error(client);
    else
        while (serve_one(&s))
            continue;
    end(&s, false);
    if (client->over == LATE && !s.midway) {
        fail("RPCSessionTimeoutError", "the session took longer than it was given");
        client->deadline = after(1.0);
        channel_error(client);
    }
    if (s.files >= 0)
        close(s.files);
    remove_folder(folder);
    *folder = '\0';
    say(o, "%s: the session has ended", client->peer);
}
