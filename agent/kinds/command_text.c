#include "agent/kinds/command_text.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"

struct bounded_text {
  char *out;
  size_t room; /* for text; the end mark has its own */
  size_t length;
  bool cut;
};

static void put(struct bounded_text *self, const char *text, size_t length) {
  size_t taken = length < self->room - self->length ? length : self->room - self->length;
  memcpy(self->out + self->length, text, taken);
  self->length += taken;
  self->cut |= taken < length;
}

static void put_word(struct bounded_text *self, const char *word) {
  bool quoted = word[0] == '\0' || strpbrk(word, " \t\r\n'\"\\$`;&|<>()*?[]{}!#~") != NULL;
  put(self, "'", quoted);
  for (const char *quote; (quote = strchr(word, '\'')) != NULL && !self->cut; word = quote + 1) {
    put(self, word, (size_t)(quote - word));
    put(self, "'\\''", 4);
  }
  put(self, word, strlen(word));
  put(self, "'", quoted);
}

static bool is_shell(const char *command) {
  static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh", "ksh"};
  const char *slash = strrchr(command, '/');
  const char *name = slash != NULL ? slash + 1 : command;
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    if (strcmp(name, shells[i]) == 0)
      return true;
  return false;
}

/* The script of `sh -c SCRIPT`, `bash -lc SCRIPT`, `bash -l -c SCRIPT`; else NULL. */
static const char *shell_script(const char *command, char *const *args) {
  if (!is_shell(command))
    return NULL;
  for (; *args != NULL && (*args)[0] == '-'; args++)
    if ((*args)[1] != '-' && (*args)[strlen(*args) - 1] == 'c')
      return args[1];
  return NULL;
}

void command_text(const char *command, char *const *args, char *out, size_t size) {
  static const char mark[] = "...";
  CHECK(size >= sizeof mark);
  struct bounded_text text = {.out = out, .room = size - sizeof mark};
  const char *script = shell_script(command, args);
  if (script != NULL) {
    put(&text, script, strlen(script));
  } else {
    put_word(&text, command);
    for (; *args != NULL && !text.cut; args++) {
      put(&text, " ", 1);
      put_word(&text, *args);
    }
  }
  if (text.cut)
    text.length = utf8_cut(out, text.length);
  memcpy(out + text.length, text.cut ? mark : "", text.cut ? sizeof mark : 1);
}
