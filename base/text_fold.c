#include "base/text_fold.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

#define LATIN_FIRST 0xC0
#define VIETNAMESE_FIRST 0x1E00

/* The base letter of each character by Unicode's canonical decompositions; a blank if it has
   none. */
static const char latin[] = "AAAAAA CEEEEIIII NOOOOO  UUUUY  aaaaaa ceeeeiiii nooooo  uuuuy y"
                            "AaAaAaCcCcCcCcDd  EeEeEeEeEeGgGgGgGgHh  IiIiIiIiI   JjKk LlLlLl "
                            "   NnNnNn   OoOoOo  RrRrRrSsSsSsSsTtTt  UuUuUuUuUuUuWwYyYZzZzZz ";
static const char vietnamese[] = "AaBbBbBbCcDdDdDdDdDdEeEeEeEeEeFfGgHhHhHhHhHhIiIiKkKkKkLlLlLlLlMm"
                                 "MmMmNnNnNnNnOoOoOoOoPpPpRrRrRrRrSsSsSsSsSsTtTtTtTtUuUuUuUuUuVvVv"
                                 "WwWwWwWwWwXxXxYyZzZzZzhtwy      AaAaAaAaAaAaAaAaAaAaAaAaEeEeEeEe"
                                 "EeEeEeEeIiIiOoOoOoOoOoOoOoOoOoOoOoOoUuUuUuUuUuUuUuYyYyYyYy      ";

static char letter_of(unsigned character) {
  if (character >= LATIN_FIRST && character < LATIN_FIRST + sizeof latin - 1)
    return latin[character - LATIN_FIRST];
  if (character >= VIETNAMESE_FIRST && character < VIETNAMESE_FIRST + sizeof vietnamese - 1)
    return vietnamese[character - VIETNAMESE_FIRST];
  return ' ';
}

static bool is_removed(unsigned character) {
  return (character >= '\t' && character <= '\r') || character == ' ' || character == 0x85 ||
         character == 0xA0 || (character >= 0x300 && character <= 0x36F) ||
         (character >= 0x2000 && character <= 0x200D) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x2060 ||
         character == 0x3000 || character == 0xFEFF;
}

/* Returns the character in ASCII, or 0 if it is kept. */
static char plain_of(unsigned character) {
  if (character == 0xB4 || (character >= 0x2018 && character <= 0x201B) || character == 0x2032)
    return '\'';
  if (character == 0xAB || character == 0xBB || (character >= 0x201C && character <= 0x201F) ||
      character == 0x2033)
    return '"';
  if ((character >= 0x2010 && character <= 0x2015) || character == 0x2212)
    return '-';
  const char letter = letter_of(character);
  return letter != ' ' ? letter : 0;
}

size_t text_fold_next(const char *text, size_t length, char out[4], size_t *folded) {
  const size_t taken = utf8_sequence(text, length);
  const unsigned character = taken > 0 ? utf8_decode(text, taken) : 0;
  const char plain = taken > 0 ? plain_of(character) : 0;
  *folded = taken > 0 && is_removed(character) ? 0 : plain != 0 || taken == 0 ? 1 : taken;
  out[0] = plain != 0 ? plain : text[0];
  if (*folded > 1)
    memcpy(out, text, *folded);
  return taken > 0 ? taken : 1;
}
