/* Any text as base64. Valid base64 has at most three bytes for four characters; encoded again, it
   is the text without blanks, except for unused bits. */
#include "base/base64.h"
#include "tests/fuzz/fuzz.h"

static bool is_blank(uint8_t byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Compares up to the last character in front of the padding, which may have unused bits. */
static void compare(const uint8_t *data, size_t size, const char *encoded, size_t length) {
  size_t exact = length;
  while (exact > 0 && encoded[exact - 1] == '=')
    exact--;
  exact -= exact < length;
  size_t place = 0;
  for (size_t i = 0; i < size; i++) {
    if (is_blank(data[i]))
      continue;
    demand(place < length);
    demand(place == exact || encoded[place] == (char)data[i]);
    place++;
  }
  demand(place == length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *bytes = malloc(size + 7);
  demand(bytes != NULL);
  struct base64_reader reader = base64_reader((const char *)data, size);
  size_t decoded = 0;
  ssize_t n;
  while ((n = base64_read(&reader, bytes + decoded, 3 + decoded % 5)) > 0) {
    decoded += (size_t)n;
    demand(decoded <= size / 4 * 3);
  }
  if (n == 0) {
    size_t length = base64_length(decoded);
    char *encoded = malloc(length + 1);
    demand(encoded != NULL);
    demand(base64_encode(encoded, bytes, decoded) == encoded + length);
    compare(data, size, encoded, length);
    free(encoded);
  }
  free(bytes);
  return 0;
}
