/* main.c: the command smelt-server, which runs libraries that programs on other machines send, where
 * there is no Python.
 *
 * One process listens and waits for its children: one for each connection, and one for the tracker.
 * They end when the pipe that only this process can write to is closed, whatever has ended it.
 */
#define _GNU_SOURCE
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAITING 64 /* connections that wait to be accepted */
#define ENDS 5.0   /* seconds that children have to end by themselves */

static volatile sig_atomic_t stopped;
static shared *common;

static _Noreturn void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("smelt-server: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

/* ---- what it says ------------------------------------------------------------------------------ */

void say(const options *o, const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    size = size < (int)sizeof line - 1 ? size : (int)sizeof line - 2;
    line[size++] = '\n'; /* in one piece, as others write there, too */
    if (!o->silent && write(STDOUT_FILENO, line, (size_t)size) < 0)
        return;
}

/* The processor's name as Linux has it, as a JSON string. */
static void add_processor(text *t) {
    static const char *const keys[] = {"model name", "Model", "uarch", "Hardware"};
    char found[4][128] = {"", "", "", ""}, line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        for (int k = 0; k < 4; k++) {
            size_t size = strlen(keys[k]);
            const char *colon = strchr(line, ':');
            if (*found[k] == '\0' && colon != NULL && strncmp(line, keys[k], size) == 0 &&
                (line[size] == '\t' || line[size] == ' ' || line[size] == ':'))
                snprintf(found[k], sizeof *found, "%.*s", (int)strcspn(colon + 1 + strspn(colon + 1, " "), "\n"),
                         colon + 1 + strspn(colon + 1, " "));
        }
    if (file != NULL)
        fclose(file);
    int k = 0;
    while (k < 3 && *found[k] == '\0')
        k++;
    text_quote(t, found[k]);
}

/* Thousandths of a degree Celsius; false: the system does not tell. */
static bool read_temperature(int64_t *warmth) {
    long long found;
    FILE *file = fopen("/sys/class/thermal/thermal_zone0/temp", "r");
    bool told = file != NULL && fscanf(file, "%lld", &found) == 1;
    if (file != NULL)
        fclose(file);
    *warmth = told ? found : 0;
    return told;
}

void describe(text *t) {
    struct utsname system;
    if (uname(&system) < 0)
        memset(&system, 0, sizeof system);
    text_add(t, "{\"server\": \"C\", \"host\": ");
    text_quote(t, system.nodename);
    text_add(t, ", \"machine\": ");
    text_quote(t, system.machine);
    text_add(t, ", \"version\": \"%s\", \"cores\": %d, \"cpu\": ", SMELT_VERSION, (int)smelt_cpu_count());
    add_processor(t);
    text_add(t, ", \"features\": [");
    const char *between = "", *name;
    for (int64_t i = 0; (name = smelt_cpu_feature(i)) != NULL; i++)
        if (smelt_cpu_has(name)) {
            text_add(t, "%s\"%s\"", between, name);
            between = ", ";
        }
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), warmth;
    text_add(t, "], \"memory\": %" PRId64 ", \"temperature\": ", memory);
    if (read_temperature(&warmth))
        text_add(t, "%.1f}", (double)warmth / 1000);
    else
        text_add(t, "null}");
}

/* ---- options ----------------------------------------------------------------------------------- */

static const char usage[] =
    "usage: smelt-server [options]\n"
    "\n"
    "Runs libraries that programs on other machines send (smelt.rpc), without Python.\n"
    "\n"
    "  --host HOST          the address to listen at (127.0.0.1)\n"
    "  --port PORT          the first port (9090)\n"
    "  --port-end PORT      the last one (9199)\n"
    "  --tracker HOST:PORT  belong to this tracker: one session at a time\n"
    "  --key KEY            what it is called there, e.g. rpi4\n"
    "  --custom-addr HOST   the address that the tracker tells, where it is another one\n"
    "  --token-file FILE    a file with the token that programs have to know; else SMELT_RPC_TOKEN\n"
    "  --silent             say nothing of who comes and goes\n"
    "  --help               print this\n"
    "\n"
    "Connections are not encrypted: there is no TLS. The token is never sent.\n";

static int number(const char *flag, const char *text, int most) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < 0 || value > most)
        refuse("%s %s: a number from 0 to %d is needed", flag, text, most);
    return (int)value;
}

static void read_token(options *o, const char *path) {
    FILE *file = fopen(path, "r");
    size_t size;
    if (file == NULL)
        refuse("--token-file %s: %s", path, strerror(errno));
    size = fread(o->token, 1, sizeof o->token - 1, file);
    fclose(file);
    size_t start = strspn(o->token, " \t\r\n");
    while (size > start && strchr(" \t\r\n", o->token[size - 1]) != NULL)
        size--;
    memmove(o->token, o->token + start, size - start);
    o->token[size - start] = '\0';
    if (*o->token == '\0')
        refuse("--token-file %s: it is empty", path);
}

static void read_tracker(options *o, const char *place) {
    const char *colon = strrchr(place, ':'), *host = place;
    size_t size = colon == NULL ? 0 : (size_t)(colon - place);
    if (size > 2 && *place == '[' && colon[-1] == ']')
        host++, size -= 2;
    if (size == 0 || size >= sizeof o->tracker_host || strlen(colon + 1) > 5 || colon[1] == '\0' ||
        colon[1 + strspn(colon + 1, "0123456789")] != '\0')
        refuse("'%s' is no HOST:PORT", place);
    memcpy(o->tracker_host, host, size);
    strcpy(o->tracker_port, colon + 1);
}

static options read_options(int argc, char **argv) {
    static const char *const names[] = {"--host", "--port", "--port-end", "--tracker", "--key",
                                        "--custom-addr", "--token-file"};
    options o = {.host = "127.0.0.1", .key = "", .port = 9090, .port_end = 9199};
    const char *given[7] = {NULL}, *token = getenv("SMELT_RPC_TOKEN");
    for (int i = 1; i < argc; i++) {
        int n = 0;
        size_t size = strcspn(argv[i], "=");
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        if (strcmp(argv[i], "--silent") == 0) {
            o.silent = true;
            continue;
        }
        while (n < 7 && (strlen(names[n]) != size || strncmp(names[n], argv[i], size) != 0))
            n++;
        if (n == 7)
            refuse("there is no option %s; --help lists them", argv[i]);
        if (argv[i][size] == '\0' && i + 1 == argc)
            refuse("%s needs a value; --help says which", argv[i]);
        given[n] = argv[i][size] == '=' ? argv[i] + size + 1 : argv[++i];
    }
    o.host = given[0] != NULL ? given[0] : o.host;
    o.port = given[1] != NULL ? number("--port", given[1], 65535) : o.port;
    o.port_end = given[2] != NULL ? number("--port-end", given[2], 65535) : o.port_end;
    o.key = given[4] != NULL ? given[4] : o.key;
    o.address = given[5];
    if (given[3] != NULL)
        read_tracker(&o, given[3]);
    if (given[3] != NULL && *o.key == '\0')
        refuse("--tracker needs --key, by which programs ask for this server");
    if (token != NULL && strlen(token) < sizeof o.token)
        strcpy(o.token, token);
    if (given[6] != NULL)
        read_token(&o, given[6]);
    return o;
}

/* Whether an address is this machine's alone. */
static bool is_here(const char *host) {
    unsigned char bytes[16];
    if (inet_pton(AF_INET, host, bytes) == 1)
        return bytes[0] == 127;
    if (inet_pton(AF_INET6, host, bytes) == 1)
        return memcmp(bytes, &in6addr_loopback, sizeof bytes) == 0;
    return strcmp(host, "localhost") == 0;
}

/* ---- listening --------------------------------------------------------------------------------- */

/* A socket at the first free port, which is left in o->port. */
static int listen_at(options *o) {
    int family = strchr(o->host, ':') != NULL ? AF_INET6 : AF_INET, yes = 1, last = o->port_end;
    const char *why = "none was given";
    for (int port = o->port; port <= (last > o->port ? last : o->port); port++) {
        struct addrinfo wanted = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *found;
        char text[8];
        snprintf(text, sizeof text, "%d", port);
        int error = getaddrinfo(o->host, text, &wanted, &found);
        if (error != 0)
            refuse("%s: %s", o->host, gai_strerror(error));
        int end = socket(family, SOCK_STREAM, 0);
        setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        bool done = bind(end, found->ai_addr, found->ai_addrlen) == 0 && listen(end, WAITING) == 0;
        why = strerror(errno);
        freeaddrinfo(found);
        struct sockaddr_storage own;
        socklen_t size = sizeof own;
        if (done && getsockname(end, (struct sockaddr *)&own, &size) == 0) {
            o->port = ntohs(family == AF_INET ? ((struct sockaddr_in *)&own)->sin_port
                                              : ((struct sockaddr_in6 *)&own)->sin6_port);
            fcntl(end, F_SETFL, O_NONBLOCK); /* who has called may be gone when it is accepted */
            return end;
        }
        close(end);
    }
    refuse("no port of %s from %d to %d can be listened at: %s", o->host, o->port, o->port_end, why);
}

static void keep_alive(int end) {
    int yes = 1;
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(end, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
#ifdef TCP_KEEPIDLE /* a machine that was switched off is noticed after a minute */
    int idle = 30, interval = 10, count = 3;
    setsockopt(end, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(end, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(end, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
#endif
}

/* ---- children ---------------------------------------------------------------------------------- */

typedef struct server {
    options o;
    shared *all;
    int listening, stop[2], wake[2]; /* pipes: their ends to read, to write */
    pid_t tracker, sessions[MOST_SESSIONS]; /* 0: none */
} server;

static void note(int signal) {
    if (signal != SIGCHLD)
        stopped = 1;
}

pid_t split(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    pid_t made = fork();
    if (made == 0) {
        sigset_t none;
        for (int i = 0; i < 3; i++)
            signal(signals[i], SIG_IGN); /* this process is told otherwise */
        signal(SIGCHLD, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
    }
    return made;
}

void leave_shared(void) { munmap(common, sizeof *common); }

/* In a child: what it must not keep open. */
static void leave(server *s) {
    close(s->listening);
    close(s->stop[1]);
    close(s->wake[1]);
}

/* Whether the tracker has given this server to whoever says so. */
static bool claims(shared *all, const char *match) {
    uint32_t turn = atomic_load(&all->turn);
    return TURN_OF(turn) == ANYBODY && same(all->match, match) &&
           atomic_compare_exchange_strong(&all->turn, &turn,
                                          (turn - ANYBODY) | (uint32_t)getpid());
}

static _Noreturn void meet(server *s, int end, const char *peer, char *folder) {
    channel client = {.end = end, .stop = s->stop[0], .asker = -1};
    hello said;
    snprintf(client.peer, sizeof client.peer, "%s", peer);
    leave(s);
    close(s->wake[0]);
    if (!welcome(&client, s->o.token, &said)) {
        say(&s->o, "%s", failure.text);
    } else if (*s->o.tracker_host != '\0' && !claims(s->all, said.match)) {
        fail("RPCError", "this server is the tracker's to give: ask the tracker for it");
        client.deadline = after(PATIENCE);
        channel_error(&client);
    } else {
        serve_session(&client, &s->o, &said, folder);
    }
    close(end);
    exit(0);
}

static void accept_one(server *s) {
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    char host[64] = "?", port[8] = "?", peer[80];
    int end = accept(s->listening, (struct sockaddr *)&from, &size), place = 0;
    if (end < 0)
        return;
    keep_alive(end);
    getnameinfo((struct sockaddr *)&from, size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(peer, sizeof peer, "%s:%s", host, port);
    while (place < MOST_SESSIONS - 1 && s->sessions[place] != 0)
        place++;
    pid_t made = split();
    if (made == 0)
        meet(s, end, peer, s->all->folders[place]);
    close(end);
    if (made > 0)
        s->sessions[place] = made;
    else
        say(&s->o, "%s: no process can be started: %s", peer, strerror(errno));
}

/* Children that have ended; gives how many are left. */
static int reap(server *s) {
    int left = 0, how;
    for (pid_t ended; (ended = waitpid(-1, &how, WNOHANG)) > 0;) {
        uint32_t turn = atomic_load(&s->all->turn);
        if (ended == s->tracker)
            s->tracker = 0;
        for (int i = 0; i < MOST_SESSIONS; i++)
            if (s->sessions[i] == ended) {
                s->sessions[i] = 0;
                if (s->all->folders[i][0] != '\0') /* it was killed */
                    remove_folder(s->all->folders[i]);
                s->all->folders[i][0] = '\0';
            }
        if (TURN_OF(turn) == (uint32_t)ended) {
            atomic_store(&s->all->turn, turn - TURN_OF(turn) + NOBODY);
            if (write(s->wake[1], "", 1) < 0)
                continue; /* it is full: there is enough to wake up for */
        }
    }
    for (int i = 0; i < MOST_SESSIONS; i++)
        left += s->sessions[i] != 0;
    return left + (s->tracker > 0);
}

static void begin_tracker(server *s) {
    s->tracker = split();
    if (s->tracker == 0) {
        leave(s);
        serve_tracker(&s->o, s->all, s->stop[0], s->wake[0]);
    }
}

/* ---- running ----------------------------------------------------------------------------------- */

static void end_children(server *s) {
    const struct timespec shortly = {0, 10000000};
    close(s->listening);
    close(s->stop[1]);
    for (int64_t last = after(ENDS); reap(s) > 0; nanosleep(&shortly, NULL)) {
        if (now() < last)
            continue;
        for (int i = 0; i < MOST_SESSIONS; i++)
            if (s->sessions[i] != 0)
                kill(s->sessions[i], SIGKILL);
        if (s->tracker > 0)
            kill(s->tracker, SIGKILL);
    }
}

static void serve(server *s) {
    sigset_t none;
    sigemptyset(&none);
    while (!stopped) {
        int children = reap(s);
        bool wanted = *s->o.tracker_host != '\0' && s->tracker <= 0;
        if (wanted)
            begin_tracker(s);
        fd_set ready;
        FD_ZERO(&ready);
        if (children < MOST_SESSIONS) /* the others wait */
            FD_SET(s->listening, &ready);
        if (pselect(s->listening + 1, &ready, NULL, NULL, NULL, &none) > 0)
            accept_one(s);
    }
}

int main(int argc, char **argv) {
    server s = {.o = read_options(argc, argv)};
    struct sigaction action = {.sa_handler = note};
    sigset_t blocked;
    int null = open("/dev/null", O_RDONLY);
    if (*s.o.token == '\0' && !is_here(s.o.host))
        refuse("a server on %s can be reached from other machines: it needs a token; "
               "SMELT_RPC_TOKEN is one, or --token-file names a file with one", s.o.host);
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s.all = common;
    if (common == MAP_FAILED || pipe(s.stop) != 0 || pipe(s.wake) != 0)
        refuse("%s", strerror(errno));
    fcntl(s.wake[0], F_SETFL, O_NONBLOCK);
    fcntl(s.wake[1], F_SETFL, O_NONBLOCK);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (null > STDERR_FILENO)
        close(null);
    s.listening = listen_at(&s.o);
    sigemptyset(&blocked);
    for (int i = 0; i < 4; i++) { /* they come while pselect waits, and never between */
        static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
        struct sigaction before;
        sigaddset(&blocked, signals[i]);
        sigaction(signals[i], &action, &before);
        if (i > 0 && before.sa_handler == SIG_IGN) /* by nohup, say */
            signal(signals[i], SIG_IGN);
    }
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGPIPE, SIG_IGN); /* these two are errors of what is written */
    signal(SIGXFSZ, SIG_IGN);
    printf("the server is at %s:%d\n", s.o.host, s.o.port);
    fflush(stdout);
    serve(&s);
    end_children(&s);
    leave_shared();
    return 0;
}
