/*
 * What users may do. ACL DRYRUN says it of any user, where the server has it (Redis 7) and lets
 * this one ask; otherwise the commands that change nothing are tried, for this user alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/doctor.h"

#define NEED_WORDS 8

/* A word with '$' is a key of the job. */
struct need {
  const char *words[NEED_WORDS];
  bool is_order; /* it changes something: it is not tried */
};

static const struct need client_needs[] = {
    {{"GET", "$heartbeat"}, false},
    {{"LLEN", "$results"}, false},
    {{"LRANGE", "$in", "0", "0"}, false},
    {{"XREAD", "COUNT", "1", "STREAMS", "$events", "0-0"}, false},
    {{"XREVRANGE", "$events", "+", "-", "COUNT", "1"}, false},
    {{"LPUSH", "$in", "x"}, true},
    {{"LREM", "$results", "1", "x"}, true},
};

static const struct need agent_needs[] = {
    {{"MULTI"}, true},
    {{"EXEC"}, true},
    {{"DISCARD"}, true},
    {{"WATCH", "$committed"}, true},
    {{"GET", "$committed"}, true},
    {{"SET", "$heartbeat", "x", "EX", "10"}, true},
    {{"DEL", "$started"}, true},
    {{"EXPIRE", "$in", "1"}, true},
    {{"PERSIST", "$in"}, true},
    {{"LLEN", "$in"}, true},
    {{"LINDEX", "$inflight", "0"}, true},
    {{"LPUSH", "$results", "x"}, true},
    {{"RPUSH", "$inflight", "x"}, true},
    {{"LREM", "$inflight", "1", "x"}, true},
    {{"LTRIM", "$inflight", "0", "-1"}, true},
    {{"BLMOVE", "$in", "$inflight", "RIGHT", "LEFT", "1"}, true},
    {{"XADD", "$events", "*", "data", "x"}, true},
    {{"XTRIM", "$events", "MAXLEN", "1"}, true},
    {{"XLEN", "$events"}, true},
    {{"XREVRANGE", "$events", "+", "-", "COUNT", "1"}, true},
};

struct missing {
  struct buffer names, rules; /* "XREAD, LLEN", " +xread +llen" */
  bool keys, unknown;
};

struct answer_text {
  char text[256];
};

/* Redis 7 answers a dry run with OK, or with a text that says what is not allowed. */
static void take_dry_run(void *context, const redisReply *reply) {
  struct answer_text *self = context;
  if (reply->str != NULL)
    (void)snprintf(self->text, sizeof self->text, "%s", reply->str);
}

/* --- a need ----------------------------------------------------------------------------------- */

/* Writes the words with the job's keys; `names` is where those are. */
static void fill_words(const struct doctor *self, const struct need *need, const char *words[],
                       char names[][256]) {
  const char *job = self->program->has_keys ? self->program->job : "doctor";
  size_t keys = 0;
  size_t i = 0;
  for (; i < NEED_WORDS && need->words[i] != NULL; i++) {
    words[i] = need->words[i];
    if (words[i][0] == '$') {
      (void)snprintf(names[keys], sizeof names[keys], "sandbox:%s:%s", job, words[i] + 1);
      words[i] = names[keys++];
    }
  }
  words[i] = NULL;
}

static void add_missing(struct missing *self, const char *command) {
  buffer_add_format(&self->names, "%s%s", self->names.length > 0 ? ", " : "", command);
  buffer_add_string(&self->rules, " +");
  for (const char *letter = command; *letter != '\0'; letter++) {
    const char lower = (char)(*letter | 0x20);
    buffer_add(&self->rules, &lower, 1);
  }
}

/* Returns whether this way of looking works at all. */
static bool dry_run(struct doctor *self, const char *user, const struct need *need,
                    struct missing *missing) {
  const char *words[NEED_WORDS + 4] = {"ACL", "DRYRUN", user};
  char names[2][256];
  struct answer_text answer = {""};
  fill_words(self, need, words + 3, names);
  if (doctor_ask(self, words, take_dry_run, &answer) != ANSWER_GIVEN)
    return false;
  if (strcmp(answer.text, "OK") == 0)
    return true;
  if (strstr(answer.text, "permissions to run") != NULL)
    add_missing(missing, need->words[0]);
  else
    missing->keys = true;
  return true;
}

static void try_need(struct doctor *self, const struct need *need, struct missing *missing) {
  const char *words[NEED_WORDS + 1];
  char names[2][256];
  bool of_key;
  if (need->is_order) {
    missing->unknown = true;
    return;
  }
  fill_words(self, need, words, names);
  const enum answer answer = doctor_ask(self, words, reply_to_nothing, NULL);
  if (answer != ANSWER_REFUSED || !doctor_is_denied(self, &of_key))
    return;
  if (of_key)
    missing->keys = true;
  else
    add_missing(missing, need->words[0]);
}

/* --- users ------------------------------------------------------------------------------------ */

static void find_missing(struct doctor *self, enum finding finding, const char *user,
                         const char *who, struct missing *missing) {
  struct buffer fix = {0};
  /* Without a job no key is known that the user must have. */
  const bool keys = missing->keys && self->program->has_keys;
  buffer_add_string(&fix, "ACL SETUSER ");
  doctor_add_word(&fix, user);
  if (keys) {
    buffer_add_string(&fix, " ~sandbox:");
    doctor_add_word(&fix, self->program->job);
    buffer_add_string(&fix, ":*");
  }
  if (missing->rules.length > 0)
    buffer_add(&fix, missing->rules.bytes, missing->rules.length);
  buffer_add(&fix, "", 1);
  if (missing->names.length > 0)
    doctor_find(self, finding, fix.bytes, "ACL: %s may not %.*s%s", who, (int)missing->names.length,
                missing->names.bytes, keys ? ", nor use the job's keys" : "");
  else if (keys)
    doctor_find(self, finding, fix.bytes, "ACL: %s may not use the job's keys", who);
  buffer_release(&fix);
}

static void release_missing(struct missing *self) {
  buffer_release(&self->names);
  buffer_release(&self->rules);
}

static bool is_fine(const struct doctor *self, const struct missing *missing) {
  return missing->names.length == 0 && !(missing->keys && self->program->has_keys);
}

/* Returns whether the server answers dry runs. */
static bool look_at_client(struct doctor *self) {
  const size_t count = sizeof client_needs / sizeof *client_needs;
  struct missing missing = {0};
  bool can_dry_run = true;
  for (size_t i = 0; i < count && !self->is_gone; i++) {
    can_dry_run = can_dry_run && dry_run(self, self->user, &client_needs[i], &missing);
    if (!can_dry_run)
      try_need(self, &client_needs[i], &missing);
  }
  if (self->is_gone) {
    release_missing(&missing);
    return false;
  }
  if (!is_fine(self, &missing))
    find_missing(self, FINDING_PROBLEM, self->user, "the user", &missing);
  else if (missing.unknown)
    doctor_find(self, FINDING_OK, NULL,
                "ACL: the user may do what this program needs; LPUSH and LREM were not tried");
  else
    doctor_find(self, FINDING_OK, NULL, "ACL: the user may do what this program needs");
  release_missing(&missing);
  return can_dry_run;
}

/* The word behind " user=" of the line of CLIENT LIST that has this name. */
static bool find_user(const char *list, const char *name, char *user, size_t size) {
  char wanted[300];
  (void)snprintf(wanted, sizeof wanted, " name=%s", name);
  const char *found = strstr(list, wanted);
  const char *end = found != NULL ? strchr(found, '\n') : NULL;
  const char *at = found != NULL ? strstr(found, " user=") : NULL;
  if (at == NULL || (end != NULL && at > end))
    return false;
  at += strlen(" user=");
  (void)snprintf(user, size, "%.*s", (int)strcspn(at, " \n"), at);
  return true;
}

/* The agent's connections are named after its job; false where that is not to be seen. */
static bool read_agents_user(struct doctor *self, char *user, size_t size) {
  struct client_name name = keys_client_name(&self->program->keys, "");
  char *list = NULL;
  if (doctor_ask(self, WORDS("CLIENT", "LIST"), reply_to_text, &list) != ANSWER_GIVEN ||
      list == NULL)
    return false;
  const bool found = find_user(list, name.text, user, size);
  free(list);
  return found;
}

/* Where an agent is alive, but not whose: it has what it needs. Without one, this user may be the
   next agent's. */
static void look_at_agent(struct doctor *self, bool has_agent) {
  const size_t count = sizeof agent_needs / sizeof *agent_needs;
  struct missing missing = {0};
  char user[128], who[200];
  const bool is_known = has_agent && read_agents_user(self, user, sizeof user);
  if (has_agent && !is_known)
    return;
  if (!is_known)
    (void)snprintf(user, sizeof user, "%s", self->user);
  (void)snprintf(who, sizeof who, is_known ? "the agent's user %s" : "as an agent's, the user %s",
                 user);
  size_t checked = 0;
  while (checked < count && dry_run(self, user, &agent_needs[checked], &missing))
    checked++;
  if (checked == count && is_fine(self, &missing))
    doctor_find(self, FINDING_OK, NULL, "ACL: %s may do what an agent needs", who);
  else if (checked == count)
    find_missing(self, is_known ? FINDING_PROBLEM : FINDING_WARNING, user, who, &missing);
  release_missing(&missing);
}

void doctor_look_at_rights(struct doctor *self, bool has_agent) {
  if (look_at_client(self))
    look_at_agent(self, has_agent);
}
