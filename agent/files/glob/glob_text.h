#ifndef AGENT_FILES_GLOB_GLOB_TEXT_H
#define AGENT_FILES_GLOB_GLOB_TEXT_H

#include <stddef.h>

#include "base/error.h"

/*
 * The text of a glob (agent/files/glob/glob.h) as it is written: its units, and the globs
 * without braces that it expands to. Pure.
 *
 *   if (glob_text_check(text, &error) != 0 || glob_text_expand(text, &globs, &error) != 0)
 *     …
 *   for (const char *one = globs.text; one < globs.text + globs.length; one += strlen(one) + 1)
 *     …
 *   free(globs.text);
 */

/* The longest glob, and the most bytes of all the globs together that its braces expand to (empty
   ones count with their NUL). Chosen so that a hostile glob costs at most some milliseconds. */
#define GLOB_LENGTH_MAX ((size_t)4096)
#define GLOB_EXPANDED_MAX ((size_t)16 * 1024)

/* Length in bytes of the unit at the start of a text that is not empty: an escape, a bracket
   expression, or else one byte. 0 when its end is missing. */
size_t glob_text_unit(const char *text);

/* Checks the length, and that brackets and braces are closed; 0, or -1 with an error that names the
   offset. */
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

#endif
