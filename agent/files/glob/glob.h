#ifndef AGENT_FILES_GLOB_GLOB_H
#define AGENT_FILES_GLOB_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/glob/glob_text.h"
#include "base/error.h"

/*
 * Does a path fit a glob? As in `rg -g` and a line of .gitignore. Pure; compiled once, matched
 * often.
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
 *            and a "-" at either end stand for themselves
 *   {a,b}    one of these globs, of which each may be empty and have braces in it
 *   \x       x itself, between brackets too
 *
 * A glob with a "/" anywhere in it, be it in braces, is one for the whole path from the walk's
 * root; any other is one for the base name, wherever that is. A "/" or "./" in front only says
 * the former; one at the end says that only directories fit. A directory that fits says nothing of
 * what is in it: "a" fits a, not a/b.
 *
 * What .gitignore has and this has not: "!" and "#" in front, and spaces at the end, stand for
 * themselves. One glob has nothing to take an exception from, and who asks has a field for what to
 * keep and another one for what to leave out: a "!" would be a second way to say it, the other way
 * around. And a "#" in front is more likely part of a name than a comment.
 *
 * Names are bytes. A well-formed UTF-8 sequence is one character, any other byte is one too, so
 * that "?" and [!a] fit both. Case counts.
 *
 * Time for one path is at most in proportion to its length times GLOB_EXPANDED_MAX, whatever the
 * glob is: "*a*a*a*b" never goes back by more than one star.
 */
struct glob;

/* NULL, with an error, for a bracket or a brace without its other half, a range that runs backwards
   (z-a), a backslash with nothing behind it, and what is too long. An empty glob is none of these;
   nothing fits it. */
struct glob *glob_new(const char *text, struct error *error);

/* `path` is relative, its components parted by one "/" each, none at its ends; it may be a mere
   name. */
bool glob_matches(const struct glob *self, const char *path, size_t length, bool is_directory);

/* May be NULL. */
void glob_free(struct glob *self);

#endif
