/* json.c: JSON, read where it stands and written to a text. Source: RFC 8259. */
#include "server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 64
#define DIGITS "0123456789"
#define HEX DIGITS "abcdefABCDEF"

/* ---- characters -------------------------------------------------------------------------------- */

/* The character that begins here in UTF-8, which is left behind; -1: there is none. */
static int32_t code_point(const char **text) {
    static const int32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)*text;
    int more = *at < 0x80 ? 0 : *at < 0xC2 ? -1 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2 : *at < 0xF5 ? 3 : -1;
    if (more < 0)
        return -1;
    int32_t code = more == 0 ? *at : *at & (0x3F >> more);
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return -1;
        code = code << 6 | (at[i] & 0x3F);
    }
    if (code < least[more] || (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF)
        return -1;
    *text += more + 1;
    return code;
}

static int32_t of_hex(const char *four) {
    char digits[5] = {four[0], four[1], four[2], four[3], 0};
    return (int32_t)strtol(digits, NULL, 16);
}

/* The next character of a checked string. */
static int32_t character(const char **text) {
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *at = *text;
    if (*at != '\\')
        return code_point(text);
    if (at[1] != 'u') {
        *text += 2;
        return meant[strchr(escapes, at[1]) - escapes];
    }
    int32_t code = of_hex(at + 2), low;
    *text += 6;
    if (code < 0xD800 || code > 0xDBFF || at[6] != '\\' || at[7] != 'u')
        return code;
    low = of_hex(at + 8);
    if (low < 0xDC00 || low > 0xDFFF)
        return code;
    *text += 6;
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

/* ---- checking ---------------------------------------------------------------------------------- */

static const char *space(const char *at) { return at + strspn(at, " \t\n\r"); }

static const char *end_of_string(const char *at) {
    if (*at++ != '"')
        return NULL;
    while (*at != '"') {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at != '\\') {
            if (code_point(&at) < 0)
                return NULL;
        } else if (at[1] == 'u') {
            for (int i = 2; i < 6; i++)
                if (at[i] == '\0' || strchr(HEX, at[i]) == NULL)
                    return NULL;
            at += 6;
        } else {
            if (at[1] == '\0' || strchr("\"\\/bfnrt", at[1]) == NULL)
                return NULL;
            at += 2;
        }
    }
    return at + 1;
}

static const char *end_of_number(const char *at) {
    at += *at == '-';
    size_t digits = strspn(at, DIGITS);
    if (digits == 0 || (*at == '0' && digits > 1))
        return NULL;
    at += digits;
    if (*at == '.') {
        digits = strspn(++at, DIGITS);
        if (digits == 0)
            return NULL;
        at += digits;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        digits = strspn(at, DIGITS);
        if (digits == 0)
            return NULL;
        at += digits;
    }
    return at;
}

static const char *end_of(const char *at, int depth) {
    /* the last three are Python's, for numbers that JSON does not have */
    static const char *const words[] = {"null", "true", "false", "NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    if (*at == '"')
        return end_of_string(at);
    if (*at != '{' && *at != '[')
        return end_of_number(at);
    char close = *at == '{' ? '}' : ']';
    at = space(at + 1);
    if (*at == close)
        return at + 1;
    while (depth < MOST_DEPTH) {
        if (close == '}') {
            if ((at = end_of_string(at)) == NULL || *(at = space(at)) != ':')
                return NULL;
            at = space(at + 1);
        }
        if ((at = end_of(at, depth + 1)) == NULL)
            return NULL;
        at = space(at);
        if (*at == close)
            return at + 1;
        if (*at != ',')
            return NULL;
        at = space(at + 1);
    }
    return NULL;
}

bool json_check(const char *text, size_t length) {
    const char *at = *text == '{' ? end_of(text, 0) : NULL;
    return at != NULL && space(at) == text + length;
}

/* ---- reading ----------------------------------------------------------------------------------- */

const char *json_end(const char *value) { return end_of(value, 0); }

const char *json_member(const char *container, const char *previous, const char **name) {
    if (*container != '{' && *container != '[')
        return NULL;
    const char *at = space(previous == NULL ? container + 1 : json_end(previous));
    if (*at == ',')
        at = space(at + 1);
    if (*at == '}' || *at == ']')
        return NULL;
    if (*container == '{') {
        *name = at;
        at = space(space(end_of_string(at)) + 1);
    }
    return at;
}

int64_t json_count(const char *container) {
    int64_t count = 0;
    const char *name;
    for (const char *m = NULL; (m = json_member(container, m, &name)) != NULL;)
        count++;
    return count;
}

const char *json_get(const char *object, const char *name) {
    const char *found = NULL, *key = NULL;
    if (object == NULL || *object != '{')
        return NULL;
    for (const char *m = NULL; (m = json_member(object, m, &key)) != NULL;)
        if (json_is(key, name))
            found = m; /* of several the last one, as in Python */
    return found;
}

bool json_text(const char *value, char *into, size_t room) {
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    size_t size = 0;
    if (value == NULL || *value != '"')
        return false;
    for (const char *at = value + 1; *at != '"';) {
        int32_t code = character(&at);
        bool half = code >= 0xD800 && code <= 0xDFFF;
        int more = code < 0x80 || half ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        if (code <= 0 || (half && (code < 0xDC80 || code > 0xDCFF)) || size + (size_t)more + 2 > room)
            return false;
        if (half) /* a byte of a file's name that is no UTF-8, see text_quote */
            code &= 0xFF;
        into[size++] = (char)(more == 0 ? code : first[more] | code >> (6 * more));
        while (more-- > 0)
            into[size++] = (char)(0x80 | ((code >> (6 * more)) & 0x3F));
    }
    into[size] = '\0';
    return true;
}

bool json_is(const char *value, const char *text) {
    if (value == NULL || *value != '"')
        return false;
    for (const char *at = value + 1; *at != '"';)
        if (*text == '\0' || character(&at) != code_point(&text))
            return false;
    return *text == '\0';
}

bool json_whole(const char *value, int64_t *number) {
    char *end;
    if (value == NULL || end_of_number(value) == NULL)
        return false;
    errno = 0;
    *number = strtoll(value, &end, 10);
    return errno == 0 && end == end_of_number(value);
}

bool json_number(const char *value, double *number) {
    if (value == NULL || *value == '\0' || strchr("-NI" DIGITS, *value) == NULL)
        return false;
    *number = strtod(value, NULL);
    return true;
}

const char *json_shown(const char *value) {
    static char texts[2][64];
    static int turn;
    char *text = texts[turn = !turn];
    int size = value == NULL ? 0 : (int)(json_end(value) - value);
    snprintf(text, sizeof *texts, "%.*s", size < 60 ? size : 60, value == NULL ? "" : value);
    return text;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static bool has_room(text *t, size_t size) {
    if (t->size + size < t->room)
        return !t->failed;
    size_t room = 2 * (t->size + size) + 256;
    char *data = room < 4 * MOST_TEXT && !t->failed ? realloc(t->data, room) : NULL;
    if (data == NULL) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->room = room;
    return true;
}

static void append(text *t, const char *from, size_t size) {
    if (!has_room(t, size))
        return;
    memcpy(t->data + t->size, from, size);
    t->size += size;
    t->data[t->size] = '\0';
}

void text_add(text *t, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    if (size >= 0 && has_room(t, (size_t)size))
        t->size += (size_t)vsnprintf(t->data + t->size, (size_t)size + 1, format, again);
    va_end(again);
    va_end(arguments);
}

void text_quote(text *t, const char *string) {
    text_add(t, "\"");
    while (*string != '\0') {
        size_t plain = 0;
        while (string[plain] >= 0x20 && string[plain] < 0x7F && string[plain] != '"' &&
               string[plain] != '\\')
            plain++;
        append(t, string, plain);
        string += plain;
        if (*string == '\0')
            break;
        int32_t code = code_point(&string);
        if (code < 0) /* a byte that is no UTF-8, as Python writes it */
            code = 0xDC00 | (unsigned char)*string++;
        if (code >= 0x10000)
            text_add(t, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (code >> 10)),
                     (unsigned)(0xDC00 | (code & 0x3FF)));
        else
            text_add(t, "\\u%04x", (unsigned)code);
    }
    text_add(t, "\"");
}

void text_join(text *t, const text *other) {
    append(t, other->data == NULL ? "" : other->data, other->size);
    t->failed |= other->failed;
}

void text_json(text *t, const char *value) { append(t, value, (size_t)(json_end(value) - value)); }

void text_free(text *t) {
    free(t->data);
    *t = (text){0};
}
