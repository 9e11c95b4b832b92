#ifndef BASE_TEXT_FOLD_H
#define BASE_TEXT_FOLD_H

#include <stddef.h>

/*
 * Folds texts so that those that look alike become equal. A model that quotes a file often differs
 * from it in these characters. Pure.
 *
 *   white space      is removed, including line endings, no-break and zero-width spaces
 *   quotes, dashes   typographic ones become ' " and -
 *   Latin letters    from U+00C0 to U+017F and U+1E00 to U+1EFF lose their marks, composed or
 * combining
 *
 * Everything else is kept, including bytes that are not UTF-8.
 */

/* Folds the first character of a text that is not empty. Writes its bytes, at most four and no more
   than it had, and sets `*folded` to their number. Returns the length of the character. */
size_t text_fold_next(const char *text, size_t length, char out[4], size_t *folded);

#endif
