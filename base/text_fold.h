#ifndef BASE_TEXT_FOLD_H
#define BASE_TEXT_FOLD_H

#include <stddef.h>

/*
 * Folds a text so that texts are equal that look alike: what a model repeats of a file often
 * differs from it in these. Pure.
 *
 *   white space          is left out, line endings, no-break and zero-width spaces too
 *   quotes, dashes       the typographic ones become ' " and -
 *   Latin letters        lose their combining marks, whether the letter is composed with them or not:
 *                        U+00C0 to U+017F and U+1E00 to U+1EFF
 *
 * All else stays as it is, bytes that are not UTF-8 too.
 */

/* Folds the character at the start of the text, which is not empty. Writes its bytes, at most four
   and no more than it had, and sets their number. Returns how many bytes of the text it was. */
size_t text_fold_next(const char *text, size_t length, char out[4], size_t *folded);

#endif
