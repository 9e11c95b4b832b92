#ifndef AGENT_FILES_IGNORE_IGNORE_RULES_H
#define AGENT_FILES_IGNORE_IGNORE_RULES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The rules of one ignore file: of .gitignore, .ignore, .rgignore, or one of git's own. Pure.
 *
 *   struct ignore_rules *rules = ignore_rules_new(text, length, &is_too_long);
 *   switch (ignore_rules_judge(rules, "out/a.o", 7, false)) …
 *   ignore_rules_free(rules);
 *
 * A line is a glob (agent/files/glob/glob.h), as gitignore(5) and ripgrep have it:
 *
 *   "#" in front        a comment;  "\#" is a name that begins with it
 *   "!" in front        what matches is shown, though an earlier line hides it;  "\!" is a name
 *   "/" within, in front, or both
 *                       matched against the path from the file's directory, else against the name
 *   "/" at the end      directories only
 *   spaces at the end   are no part of it, unless the last one is escaped
 *
 * The last line that matches decides. Lines end with "\n" or "\r\n"; a byte order mark is not part of
 * the first. A line that is not a valid glob, is not UTF-8 or has a NUL says nothing.
 *
 * Memory is at most 40 times IGNORE_RULES_MAX. Time for one path: most rules end with a byte, and are
 * looked at only for names that end with it; each of them takes at most what glob.h says.
 */
#define IGNORE_RULES_MAX ((size_t)512 * 1024)

enum ignore_verdict { IGNORE_SILENT, IGNORE_HIDES, IGNORE_SHOWS };

struct ignore_rules;

/* NULL for a text without a rule, and for one that is longer than IGNORE_RULES_MAX, or whose braces
   expand to more than twice that. `*is_too_long` tells these apart. */
struct ignore_rules *ignore_rules_new(const char *text, size_t length, bool *is_too_long);

/* `path` is relative to the directory that the rules are for: components separated by one "/". */
enum ignore_verdict ignore_rules_judge(const struct ignore_rules *self, const char *path,
                                       size_t length, bool is_directory);

/* May be NULL. */
void ignore_rules_free(struct ignore_rules *self);

#endif
