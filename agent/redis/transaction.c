#include "agent/redis/transaction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/command.h"

#define LOOK_COMMANDS 2

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";

void transaction_form_init(struct transaction_form *self, const struct keys *keys,
                           unsigned long long key_ttl_seconds) {
  *self = (struct transaction_form){.key = keys->committed};
  if (key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", key_ttl_seconds);
  const char *const look[LOOK_COMMANDS][COMMAND_LIST_WORDS] = {{"WATCH", self->key},
                                                               {"GET", self->key}};
  self->look = command_list_new(look, LOOK_COMMANDS);
}

void transaction_form_release(struct transaction_form *self) {
  free(self->look);
  *self = (struct transaction_form){0};
}

void transaction_clear(struct transaction *self) {
  free(self->set);
  self->set = NULL;
  request_init(&self->request);
}

void transaction_open(struct transaction *self, const struct transaction_form *form,
                      const struct hold_window *window, const char value[CLAIM_TEXT_SIZE]) {
  const char *words[] = {"SET", form->key, value, "EX", form->ttl};
  transaction_clear(self);
  self->set = command_new(words, form->ttl[0] != '\0' ? 5 : 3);
  request_add(&self->request, multi, sizeof multi - 1, 1);
  for (int i = 0; window != NULL && i < window->count; i++)
    request_add(&self->request, window->pieces[i].iov_base, window->pieces[i].iov_len,
                i == 0 ? window->commands : 0);
  request_add(&self->request, self->set, strlen(self->set), 1);
}

static void add_look(struct transaction *self, const struct transaction_form *form) {
  request_add(&self->request, form->look, strlen(form->look), LOOK_COMMANDS);
  self->request.look = self->request.commands;
}

void transaction_close(struct transaction *self, const struct transaction_form *form) {
  request_add_exec(&self->request, exec, sizeof exec - 1, 1);
  add_look(self, form);
}

void transaction_look(struct transaction *self, const struct transaction_form *form) {
  transaction_clear(self);
  add_look(self, form);
}
