/* Unit tests in C. A test file defines cases with TN_CASE and ends with TN_CASES_END; each prints
 * nothing unless it fails. A failed check does not stop its case; the process exits with 1 at the
 * end. An argument on the command line runs the case of that name only. */
#ifndef TN_BASE_CHECK_H
#define TN_BASE_CHECK_H

#include <stdio.h>
#include <string.h>

typedef struct tn_case {
    const char *name;
    void (*run)(void);
    struct tn_case *next;
} tn_case;

static tn_case *tn_first_case;
static _Atomic(int) tn_failed_checks;

#define TN_CASE(case_name)                                                                        \
    static void case_name(void);                                                                  \
    __attribute__((constructor)) static void register_##case_name(void)                           \
    {                                                                                             \
        static tn_case entry = {#case_name, case_name, NULL};                                     \
        tn_case **end = &tn_first_case;                                                           \
        while (*end)                                                                              \
            end = &(*end)->next;                                                                  \
        *end = &entry;                                                                            \
    }                                                                                             \
    static void case_name(void)

#define TN_CHECK(condition)                                                                       \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                       \
            tn_failed_checks++;                                                                   \
        }                                                                                         \
    } while (0)

#define TN_CHECK_INT(actual, expected)                                                            \
    do {                                                                                          \
        long long tn_a = (long long)(actual), tn_e = (long long)(expected);                       \
        if (tn_a != tn_e) {                                                                       \
            fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #actual,    \
                    tn_a, tn_e);                                                                  \
            tn_failed_checks++;                                                                   \
        }                                                                                         \
    } while (0)

#define TN_CHECK_OK(call)                                                                         \
    do {                                                                                          \
        int tn_s = (int)(call);                                                                   \
        if (tn_s != 0) {                                                                          \
            fprintf(stderr, "%s:%d: %s: status %d: %s\n", __FILE__, __LINE__, #call, tn_s,        \
                    tn_last_error()->message);                                                    \
            tn_failed_checks++;                                                                   \
        }                                                                                         \
    } while (0)

#define TN_CASES_END                                                                              \
    int main(int argc, char **argv)                                                               \
    {                                                                                             \
        for (tn_case *at = tn_first_case; at; at = at->next)                                      \
            if (argc < 2 || strcmp(argv[1], at->name) == 0)                                       \
                at->run();                                                                        \
        return tn_failed_checks ? 1 : 0;                                                          \
    }

#endif
