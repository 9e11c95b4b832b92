#include "agent/doors/redis/net/url_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

bool url_text_begins(const char *text, const char *prefix) {
  return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

bool url_text_number(const char *text, size_t length, unsigned most, unsigned *out) {
  unsigned long value = 0;
  if (length == 0 || length > 9)
    return false;
  for (size_t i = 0; i < length; i++) {
    if (!isdigit((unsigned char)text[i]))
      return false;
    value = value * 10 + (unsigned long)(text[i] - '0');
  }
  *out = (unsigned)value;
  return value <= most;
}

static int hex_digit(char c) {
  static const char digits[] = "0123456789abcdef";
  const char *at = c == '\0' ? NULL : strchr(digits, tolower((unsigned char)c));
  return at == NULL ? -1 : (int)(at - digits);
}

char *url_text_decode(const char *text, size_t length) {
  char *out = memory_copy(text, length);
  size_t n = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] != '%') {
      out[n++] = text[i];
      continue;
    }
    int high = i + 2 < length ? hex_digit(text[i + 1]) : -1;
    int low = i + 2 < length ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || high + low == 0) {
      free(out);
      return NULL;
    }
    out[n++] = (char)(high * 16 + low);
    i += 2;
  }
  out[n] = '\0';
  return out;
}

size_t url_text_value(const char *option, const char *name) {
  if (!url_text_begins(option, name))
    return 0;
  size_t equals = strlen(name) + strspn(option + strlen(name), " ");
  return option[equals] == '=' ? equals + 1 : 0;
}
