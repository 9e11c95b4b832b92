#ifndef AGENT_FILES_GLOB_GLOB_H
#define AGENT_FILES_GLOB_GLOB_H

#include <stdbool.h>
#include <stddef.h>

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

/*
 * The parts of it, for the lines of ignore files: the text is checked, then expanded to globs without
 * braces, and these are matched as they are written.
 *
 *   if (glob_text_check(text, &error) != 0 || glob_text_expand(text, &globs, &error) != 0)
 *     …
 *   for (const char *one = globs.text; one < globs.text + globs.length; one += strlen(one) + 1)
 *     … glob_text_matches(one, strlen(one), path, length) …
 *   free(globs.text);
 */

/* The longest glob, and the most bytes of all the globs together that its braces expand to (empty
   ones count with their NUL). Chosen so that a hostile glob costs at most some milliseconds. */
#define GLOB_LENGTH_MAX ((size_t)4096)
#define GLOB_EXPANDED_MAX ((size_t)16 * 1024)

/* Length in bytes of the unit at the start of a text that is not empty: an escape, a bracket
   expression, or else one byte. 0 when its end is missing. */
size_t glob_text_unit(const char *text);

/* 0, or -1 with an error, as glob_new. */
int glob_text_check(const char *text, struct error *error);

/* One after the other, each with its NUL; the length counts these. */
struct glob_texts {
  char *text;
  size_t length;
};

/* Expands the braces of a checked text, in order and with duplicates. {a,b}{c,d} is ac, ad, bc, bd;
   nested braces are expanded outermost first. 0, with texts->text to be freed; or -1 with an error
   when the result is longer than GLOB_EXPANDED_MAX, and nothing to free. */
int glob_text_expand(const char *text, struct glob_texts *texts, struct error *error);

/* The whole path, whose components are not empty; and of one component each. */
bool glob_text_matches(const char *glob, size_t glob_length, const char *path, size_t length);
bool glob_text_matches_name(const char *glob, size_t glob_length, const char *name, size_t length);

/* The last byte of every path that the glob, which is not empty, matches; -1 where they differ. */
int glob_text_last_byte(const char *glob, size_t length);

#endif
