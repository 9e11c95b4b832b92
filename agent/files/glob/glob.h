#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Matches paths against globs with the rules of `rg -g`, or of an ignore file. Searches,
 * drawings of trees and ignore files use it. The hard part is a pattern that is made to be slow.
 * Pure.
 *
 *   ?        one byte, not "/"
 *   *        any number of bytes, but no "/"; also in names that begin with a dot
 *   **       as a whole component: any number of components, at least one at the end. Next to
 *            other characters, or as "***", it is *
 *   [a-z_]   one of these bytes, [!…] and [^…] any other one, never "/". A leading "]" and a "-"
 *            at either end are literal
 *   {a,b}    one of these globs, which may be empty and contain braces
 *   \x       a literal x, also between brackets
 *
 * A glob with a "/" that is not its end, also in braces, is matched against the whole path from the
 * walk's root, any other glob against the base name in every directory. A leading "/" or "./" has
 * no other effect; a trailing "/" restricts the glob to directories. A matching directory does not
 * include its entries. Names and globs are bytes, as for git and ripgrep, and case matters.
 *
 * A leading "!" or "#" and trailing spaces are literal, except in an ignore file: a single glob has
 * nothing to make an exception from, and a "#" is more likely part of a name than a comment.
 *
 * The time for one path is at most proportional to its length times GLOB_EXPANDED_MAX, whatever the
 * glob is: "*a*a*a*b" backtracks over one star only.
 */
struct globs;

enum globs_verdict { GLOBS_SILENT, GLOBS_MATCH, GLOBS_EXCEPT };

/* Returns a list without globs, which matches nothing. */
struct globs *globs_new(void);

/* Adds a glob. Returns -1 with an error for an unpaired bracket or brace, a reversed range (z-a), a
   trailing backslash, or a glob that is too long. An empty glob is valid and matches nothing. */
int globs_add(struct globs *self, const char *text, struct error *error);

/*
 * Returns the globs of an ignore file. Each line is a glob, as in gitignore(5) and ripgrep; one
 * that is not valid, is not UTF-8 or has a NUL is ignored. Lines end with "\n" or "\r\n". A line
 * with a leading "!" is an exception from earlier lines, and the last matching line decides.
 *
 * Returns NULL for a text without globs, and for one that is longer than GLOBS_FILE_MAX or whose
 * braces expand to more than twice that; `*is_too_long` tells these apart. Takes at most 40 times
 * GLOBS_FILE_MAX of memory.
 */
#define GLOBS_FILE_MAX ((size_t)512 * 1024)
struct globs *globs_of_ignore_file(const char *text, size_t length, bool *is_too_long);

/* Returns the verdict of the last glob that matches. `path` is relative, with single slashes
   between components and none at its ends. Accepts NULL for no globs. */
enum globs_verdict globs_classify(const struct globs *self, const char *path, size_t length,
                                  bool is_directory);

/* Returns what the globs can match below a directory. A glob names the directory if the component
   that matches the last one of the path does not begin with a wildcard ("*", "?" or "[") and is not
   the last one of the glob: ".github/" followed by "**", or "**" followed by "/node_modules/x". */
enum globs_reach { GLOBS_NOT_BELOW, GLOBS_BELOW, GLOBS_NAMED };
enum globs_reach globs_reach(const struct globs *self, const char *path, size_t length);

/* Accepts NULL. */
void globs_free(struct globs *self);

/* The longest glob, and the most bytes that its braces expand to, with a NUL for each empty glob.
   Chosen so that the worst glob costs some milliseconds at most. */
#define GLOB_LENGTH_MAX ((size_t)4096)
#define GLOB_EXPANDED_MAX ((size_t)16 * 1024)

/* The parts of globs_add, for the fuzzer. glob_text_unit returns the length of the unit at the
   start of a text that is not empty: an escape, a bracket expression, or one byte; 0 if its end is
   missing. glob_text_check checks a text like globs_add. glob_text_expand adds the globs that the
   braces of a checked text expand to, in any order and each with its NUL, to an empty buffer. It
   returns -1 with an error above GLOB_EXPANDED_MAX. */
size_t glob_text_unit(const char *text);
int glob_text_check(const char *text, struct error *error);
int glob_text_expand(const char *text, struct buffer *texts, struct error *error);
