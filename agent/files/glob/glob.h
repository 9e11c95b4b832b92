#ifndef AGENT_FILES_GLOB_GLOB_H
#define AGENT_FILES_GLOB_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Tests whether a path matches globs, with the rules of `rg -g`, or those of the lines of an ignore
 * file. Pure.
 *
 *   struct globs *globs = globs_new();
 *   if (globs_add(globs, "src/{a,b}/[a-z]*.c", &error) != 0)
 *     … error.text says what is wrong, and where
 *   if (globs_judge(globs, path, strlen(path), is_directory) == GLOBS_MATCH) …
 *   globs_free(globs);
 *
 *   ?        one byte, not "/"
 *   *        any number of bytes, also none, but no "/"; names that begin with a dot too
 *   **       as a whole component: any number of components, none in front of another one, at least
 *            one at the end: "a/" with "**" is all that is below a, but not a. Beside other
 *            characters, or three of them: as *
 *   [a-z_]   one of these bytes, [!…] and [^…] one of the others, never "/". A "]" in front and a
 *            "-" at either end are literal
 *   {a,b}    one of these globs, of which each may be empty and contain braces
 *   \x       x itself, between brackets too
 *
 * A glob with a "/" in front of its end, also in braces, is matched against the whole path from the
 * walk's root, any other glob against the base name, in whichever directory. A "/" or "./" in front
 * has no other effect; a "/" at the end restricts the glob to directories. A match of a directory
 * does not extend to the entries in it: "a" matches a, not a/b.
 *
 * "!" and "#" in front and spaces at the end are literal, except in an ignore file: a single glob
 * has nothing to take an exception from, and callers have separate fields for what to keep and what
 * to exclude. A "#" in front is more likely part of a name than a comment.
 *
 * Names and globs are bytes, as for git and ripgrep: "?" does not match a character of two bytes
 * such as "é", "??" does. Between brackets such a character is its bytes: [é] is either of them,
 * and ranges are in the order of bytes. Case counts.
 *
 * Time for one path is at most in proportion to its length times GLOB_EXPANDED_MAX, whatever the
 * glob is: "*a*a*a*b" backtracks over one star only.
 */
struct globs;

enum globs_verdict { GLOBS_SILENT, GLOBS_MATCH, GLOBS_EXCEPT };

/* Without a glob it matches nothing. */
struct globs *globs_new(void);

/* Adds a glob. -1, with an error, for a bracket or a brace without its counterpart, a range that
   runs backwards (z-a), a backslash at the end, or a glob that is too long. An empty glob is valid
   and matches nothing. */
int globs_add(struct globs *self, const char *text, struct error *error);

/*
 * The globs of an ignore file: of .gitignore, .ignore, .rgignore, or one of git's own. A line is a
 * glob, as gitignore(5) and ripgrep have it:
 *
 *   "#" in front        a comment;  "\#" is a name that begins with it
 *   "!" in front        what matches is excepted from earlier lines;  "\!" is a name
 *   "/" within, in front, or both
 *                       matched against the path from the file's directory, else against the name
 *   "/" at the end      directories only
 *   spaces at the end   are no part of it, unless the last one is escaped
 *
 * The last line that matches decides. Lines end with "\n" or "\r\n"; a byte order mark is not part
 * of the first. A line that is not a valid glob, is not UTF-8 or has a NUL says nothing.
 *
 * NULL for a text without a glob, and for one that is longer than GLOBS_FILE_MAX, or whose braces
 * expand to more than twice that. `*is_too_long` tells these apart. Memory is at most 40 times
 * GLOBS_FILE_MAX.
 */
#define GLOBS_FILE_MAX ((size_t)512 * 1024)
struct globs *globs_of_ignore_file(const char *text, size_t length, bool *is_too_long);

/* By the last glob that matches. `path` is relative, its components separated by one "/" each, none
   at its ends; it may be a mere name. Most globs end with a byte, and are looked at only for names
   that end with it. */
enum globs_verdict globs_judge(const struct globs *self, const char *path, size_t length,
                               bool is_directory);

/*
 * What the globs can match below a directory, by its path. A glob names the directory when the
 * component that matches the last one of the path does not begin with a wildcard ("*", "?" or "["),
 * and another component follows it: ".github/" followed by "**", "bin/x", or "**" followed by
 * "/node_modules/x". A glob that is matched against the base name alone names no directory.
 */
enum globs_reach { GLOBS_NOT_BELOW, GLOBS_BELOW, GLOBS_NAMED };
enum globs_reach globs_reach(const struct globs *self, const char *path, size_t length);

/* May be NULL. */
void globs_free(struct globs *self);

/* The longest glob, and the most bytes of all the globs together that its braces expand to (empty
   ones count with their NUL). Chosen so that a hostile glob costs at most some milliseconds. */
#define GLOB_LENGTH_MAX ((size_t)4096)
#define GLOB_EXPANDED_MAX ((size_t)16 * 1024)

/*
 * The parts, which the fuzzer uses, too. Length in bytes of the unit at the start of a text that is
 * not empty: an escape, a bracket expression, or else one byte; 0 when its end is missing. Whether
 * the text is a glob, with an error as of globs_add. And what the braces of a checked text expand
 * to, in order, with duplicates, each with its NUL, in an empty buffer: {a,b}{c,d} is ac, ad, bc,
 * bd; nested braces are expanded outermost first. -1 with an error when it is longer than
 * GLOB_EXPANDED_MAX.
 */
size_t glob_text_unit(const char *text);
int glob_text_check(const char *text, struct error *error);
int glob_text_expand(const char *text, struct buffer *texts, struct error *error);

#endif
