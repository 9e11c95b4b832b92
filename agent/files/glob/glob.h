#ifndef AGENT_FILES_GLOB_GLOB_H
#define AGENT_FILES_GLOB_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/glob/glob_text.h"
#include "base/error.h"

/*
 * Tests whether a path matches a glob, with the rules of `rg -g` and of a line of .gitignore. Pure.
 *
 *   struct glob *glob = glob_new("src/{a,b}/[a-z]*.c", &error);
 *   if (glob == NULL)
 *     … error.text says what is wrong, and where
 *   glob_matches(glob, path, strlen(path), is_directory);
 *   glob_free(glob);
 *
 *   ?        one character, not "/"
 *   *        any number of characters, also none, but no "/"; names that begin with a dot too
 *   **       as a whole component: any number of components, none in front of another one, at least
 *            one at the end: "a/" with "**" is all that is below a, but not a. Beside other
 *            characters, or three of them: as *
 *   [a-z_]   one of these characters, [!…] and [^…] one of the others, never "/". A "]" in front
 *            and a "-" at either end are literal
 *   {a,b}    one of these globs, of which each may be empty and contain braces
 *   \x       x itself, between brackets too
 *
 * A glob with a "/" in front of its end, also in braces, is matched against the whole path from the
 * walk's root, any other glob against the base name, in whichever directory. A "/" or "./" in front has
 * no other effect; a "/" at the end restricts the glob to directories. A match of a directory does not
 * extend to the entries in it: "a" matches a, not a/b.
 *
 * Unlike in .gitignore, "!" and "#" in front and spaces at the end are literal. A single glob has
 * nothing to take an exception from, and callers have separate fields for what to keep and what to
 * exclude. A "#" in front is more likely part of a name than a comment.
 *
 * Names are bytes. A well-formed UTF-8 sequence is one character, any other byte is one too, so
 * that "?" and [!a] match both; a range orders those bytes after all other characters. Case counts.
 *
 * Time for one path is at most in proportion to its length times GLOB_EXPANDED_MAX, whatever the
 * glob is: "*a*a*a*b" backtracks over one star only.
 */
struct glob;

/* NULL, with an error, for a bracket or a brace without its counterpart, a range that runs
   backwards (z-a), a backslash at the end, or a glob that is too long. An empty glob is valid and
   matches nothing. */
struct glob *glob_new(const char *text, struct error *error);

/* `path` is relative, its components separated by one "/" each, none at its ends; it may be a mere
   name. */
bool glob_matches(const struct glob *self, const char *path, size_t length, bool is_directory);

/* May be NULL. */
void glob_free(struct glob *self);

#endif
