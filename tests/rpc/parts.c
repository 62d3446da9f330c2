/* parts.c: pieces of smelt-server, each asked line by line: what, then its operands in hex. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An operand, with a 0 behind it; freed by the caller. */
static char *operand(const char *hex, size_t *size) {
    char *made = malloc(strlen(hex) / 2 + 1);
    unsigned byte;
    for (*size = 0; sscanf(hex + 2 * *size, "%2x", &byte) == 1; ++*size)
        made[*size] = (char)byte;
    made[*size] = '\0';
    return made;
}

/* What a value is as it was read; of an object its members. */
static void show(const char *value, text *t) {
    char string[4096];
    double number;
    int64_t whole;
    const char *name = NULL;
    if (json_text(value, string, sizeof string)) {
        text_quote(t, string);
    } else if (json_whole(value, &whole)) {
        text_add(t, "%lld", (long long)whole);
    } else if (*value == '{' || *value == '[') {
        text_add(t, "%c", *value);
        for (const char *m = NULL, *comma = ""; (m = json_member(value, m, &name)); comma = ", ") {
            text_add(t, "%s", comma);
            if (*value == '{') {
                show(name, t);
                text_add(t, ": ");
            }
            show(m, t);
        }
        text_add(t, *value == '{' ? "}" : "]");
    } else if (json_number(value, &number) && number == number && number - number == 0) {
        text_add(t, "%.17g", number);
    } else {
        text_json(t, value);
    }
}

int main(void) {
    static char line[1 << 20];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *what = strtok(line, " \n"), *first = strtok(NULL, " \n"), *then = strtok(NULL, " \n");
        size_t size, more;
        unsigned char digest[32];
        char *data = operand(first == NULL ? "" : first + 1, &size);
        char *other = operand(then == NULL ? "" : then + 1, &more);
        if (strcmp(what, "json") == 0) {
            text t = {0};
            if (json_check(data, size))
                show(data, &t);
            puts(t.data == NULL ? "none" : t.data);
            text_free(&t);
        } else if (strcmp(what, "get") == 0) {
            const char *found = json_get(data, other);
            text t = {0};
            if (found != NULL)
                text_json(&t, found);
            puts(t.data == NULL ? "none" : t.data);
            text_free(&t);
        } else {
            if (strcmp(what, "sha256") == 0)
                sha256(data, size, digest);
            else
                hmac_sha256(data, size, other, more, digest);
            for (int i = 0; i < 32; i++)
                printf("%02x", digest[i]);
            puts("");
        }
        free(data);
        free(other);
    }
    return 0;
}
