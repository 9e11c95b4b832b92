#ifndef AGENT_FILES_GLOB_GLOB_TEXT_H
#define AGENT_FILES_GLOB_GLOB_TEXT_H

#include <stddef.h>

#include "base/error.h"

/*
 * The text of a glob (agent/files/glob.h) before it is compiled: what belongs together in it, and
 * the globs without braces that it stands for. Pure.
 *
 *   if (glob_text_check(text, &error) != 0 || glob_text_expand(text, &globs, &error) != 0)
 *     …
 *   for (const char *one = globs.text; one < globs.text + globs.length; one += strlen(one) + 1)
 *     …
 *   free(globs.text);
 */

/* The longest glob, and the most bytes of all the globs together that its braces stand for (the
   empty ones count too). More is refused. */
#define GLOB_LENGTH_MAX ((size_t)4096)
#define GLOB_EXPANDED_MAX ((size_t)16 * 1024)

/* How many bytes at the start of a text that is not empty belong together: an escape, a bracket
   expression, or else one byte. 0 when the end is missing. */
size_t glob_text_unit(const char *text);

/* Length and other halves of brackets and braces; 0, or -1 with an error that says where. */
int glob_text_check(const char *text, struct error *error);

/* One after the other, each with its NUL; the length counts these. */
struct glob_texts {
  char *text;
  size_t length;
};

/* What a checked text stands for, in order, the same as often as it is said. {a,b}{c,d} is ac, ad,
   bc, bd; braces in braces are taken outermost first. 0, with a text to be freed; or -1 with an
   error when it is more than GLOB_EXPANDED_MAX, and nothing to free. */
int glob_text_expand(const char *text, struct glob_texts *texts, struct error *error);

#endif
