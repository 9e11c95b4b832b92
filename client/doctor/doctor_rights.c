/* Checks the rights of users. ACL DRYRUN answers for any user, if Redis has it (version 7) and lets
   this user ask. Otherwise the commands that change nothing are tried, for this user only. Several
   commands change nothing because their last argument is not the number that it has to be: Redis
   checks the rights before it. An EXEC or DISCARD follows MULTI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/doctor.h"

#define NEED_WORDS 8

enum need_kind {
  NEED_READ, /* changes nothing, so it can be tried */
  NEED_WRITE,
  NEED_CONTROL, /* only of an agent that reads the list `control` */
  NEED_SEARCH   /* the same; without it, a cancel cannot find a waiting step */
};

/* A command that a user needs. A word with '$' is a key of the job. */
struct need {
  const char *words[NEED_WORDS];
  enum need_kind kind;
};

/* The list of a step's own result. No step has this id, so DEL changes nothing. */
#define OWN_RESULT "$results:00000000-0000-0000-0000-000000000000"

static const struct need client_needs[] = {
    {{"GET", "$heartbeat"}, NEED_READ},
    {{"LLEN", "$results"}, NEED_READ},
    {{"LINDEX", OWN_RESULT, "-1"}, NEED_READ},
    {{"DEL", OWN_RESULT}, NEED_READ},
    {{"LRANGE", "$in", "0", "0"}, NEED_READ},
    {{"XREAD", "COUNT", "1", "STREAMS", "$events", "0-0"}, NEED_READ},
    {{"XREVRANGE", "$events", "+", "-", "COUNT", "1"}, NEED_READ},
    {{"LPUSH", "$in", "x"}, NEED_WRITE},
    {{"LPUSH", "$control", "x"}, NEED_WRITE},
    {{"EXPIRE", "$control", "1"}, NEED_WRITE},
    {{"LREM", "$results", "1", "x"}, NEED_WRITE},
};

static const struct need agent_needs[] = {
    {{"MULTI"}, NEED_READ},
    {{"EXEC"}, NEED_READ},
    {{"DISCARD"}, NEED_READ},
    {{"WATCH", "$committed"}, NEED_READ},
    {{"GET", "$committed"}, NEED_READ},
    {{"SET", "$heartbeat", "x", "EX", "?"}, NEED_READ},
    {{"DEL", "$started"}, NEED_WRITE},
    {{"EXPIRE", "$in", "?"}, NEED_READ},
    {{"PERSIST", "$in"}, NEED_WRITE},
    {{"LLEN", "$in"}, NEED_READ},
    {{"LINDEX", "$inflight", "0"}, NEED_READ},
    {{"LPUSH", "$results", "x"}, NEED_WRITE},
    {{"RPUSH", "$inflight", "x"}, NEED_WRITE},
    {{"LREM", "$inflight", "?", "x"}, NEED_READ},
    {{"LTRIM", "$inflight", "0", "?"}, NEED_READ},
    {{"BLMOVE", "$in", "$inflight", "RIGHT", "LEFT", "?"}, NEED_READ},
    {{"XADD", "$events", "?", "data", "x"}, NEED_READ},
    {{"XTRIM", "$events", "MAXLEN", "?"}, NEED_READ},
    {{"XLEN", "$events"}, NEED_READ},
    {{"XREVRANGE", "$events", "+", "-", "COUNT", "1"}, NEED_READ},
    {{"BLMOVE", "$control", "$control", "RIGHT", "RIGHT", "?"}, NEED_CONTROL},
    {{"LRANGE", "$in", "0", "0"}, NEED_SEARCH},
};

struct missing_rights {
  struct buffer names, rules; /* "XREAD, LLEN", " +xread +llen" */
  bool keys;                  /* the job's keys */
  bool is_unsure;             /* some commands were not tried */
};

/* --- a need ----------------------------------------------------------------------------------- */

/* Fills in the words, with the job's keys in `names`. */
static void fill_words(const struct doctor *self, const struct need *need, const char *words[],
                       char names[][256]) {
  const char *job = self->program->has_keys ? self->program->job : "doctor";
  size_t keys = 0, i = 0;
  for (; i < NEED_WORDS && need->words[i] != NULL; i++) {
    words[i] = need->words[i];
    if (words[i][0] == '$') {
      (void)snprintf(names[keys], sizeof names[keys], "sandbox:%s:%s", job, words[i] + 1);
      words[i] = names[keys++];
    }
  }
  words[i] = NULL;
}

static void add_missing(struct missing_rights *self, const char *command) {
  if (self->names.length > 0 &&
      memmem(self->names.bytes, self->names.length, command, strlen(command)) != NULL)
    return;
  buffer_add_format(&self->names, "%s%s", self->names.length > 0 ? ", " : "", command);
  doctor_add_rule(&self->rules, command);
}

/* Redis 7 answers with OK, or says what is not allowed. Returns false if it refuses dry runs. */
static bool dry_run(struct doctor *self, const char *user, const struct need *need,
                    struct missing_rights *missing) {
  const char *words[NEED_WORDS + 4] = {"ACL", "DRYRUN", user};
  char names[2][256], *text = NULL;
  fill_words(self, need, words + 3, names);
  if (doctor_query(self, words, reply_to_text, &text) != PIPELINE_ANSWERED)
    return false;
  if (text != NULL && strstr(text, "permissions to run") != NULL)
    add_missing(missing, need->words[0]);
  else if (text == NULL || strcmp(text, "OK") != 0)
    missing->keys = true;
  free(text);
  return true;
}

static void try_need(struct doctor *self, const struct need *need, struct missing_rights *missing) {
  const char *words[NEED_WORDS + 1];
  char names[2][256];
  if (need->kind != NEED_READ) {
    missing->is_unsure = true;
    return;
  }
  fill_words(self, need, words, names);
  if (doctor_query(self, words, reply_to_nothing, NULL) != PIPELINE_REFUSED ||
      !doctor_is_denied(self))
    return;
  if (doctor_is_key_denied(self))
    missing->keys = true;
  else
    add_missing(missing, need->words[0]);
}

/* --- users ------------------------------------------------------------------------------------ */

/* Without a job, it is unknown which keys the user must have. */
static bool lacks_keys(const struct doctor *self, const struct missing_rights *missing) {
  return missing->keys && self->program->has_keys;
}

static bool is_complete(const struct doctor *self, const struct missing_rights *missing) {
  return missing->names.length == 0 && !lacks_keys(self, missing);
}

/* `effect` says what does not work; it may be "". */
static void report_missing(struct doctor *self, enum finding finding, const char *user,
                           const char *subject, struct missing_rights *missing,
                           const char *effect) {
  const bool keys = lacks_keys(self, missing);
  struct buffer rules = {0};
  if (keys) {
    buffer_add_string(&rules, " ~sandbox:");
    doctor_add_word(&rules, self->program->job);
    buffer_add_string(&rules, ":*");
  }
  buffer_add(&rules, missing->rules.bytes, missing->rules.length);
  buffer_add(&rules, "", 1);
  struct buffer fix = doctor_fix("ACL SETUSER ", user, rules.bytes);
  if (missing->names.length > 0)
    doctor_report(self, finding, fix.bytes, "ACL: %s may not use %.*s%s%s", subject,
                  (int)missing->names.length, missing->names.bytes,
                  keys ? ", nor the job's keys" : "", effect);
  else
    doctor_report(self, finding, fix.bytes, "ACL: %s may not use the job's keys%s", subject,
                  effect);
  buffer_release(&rules);
  buffer_release(&fix);
}

static void release_missing(struct missing_rights *self) {
  buffer_release(&self->names);
  buffer_release(&self->rules);
}

/* Returns whether Redis answers dry runs. */
static bool check_client(struct doctor *self) {
  const size_t count = sizeof client_needs / sizeof *client_needs;
  struct missing_rights missing = {0};
  bool can_dry_run = true;
  for (size_t i = 0; i < count; i++) {
    can_dry_run = can_dry_run && dry_run(self, self->user, &client_needs[i], &missing);
    if (!can_dry_run)
      try_need(self, &client_needs[i], &missing);
  }
  if (!is_complete(self, &missing))
    report_missing(self, FINDING_PROBLEM, self->user, "the user", &missing, "");
  else
    doctor_report(self, FINDING_OK, NULL, "ACL: the user has the rights that the client needs%s",
                  missing.is_unsure ? "; LPUSH, EXPIRE and LREM were not tried" : "");
  release_missing(&missing);
  return can_dry_run;
}

/* Finds the word after " user=" in the line of CLIENT LIST that has this name. */
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

/* The agent's connections are named after its job. Returns false if they are not visible. */
static bool read_agents_user(struct doctor *self, char *user, size_t size) {
  struct client_name name = keys_client_name(&self->program->keys, "");
  char *list = NULL;
  if (doctor_query(self, WORDS("CLIENT", "LIST"), reply_to_text, &list) != PIPELINE_ANSWERED ||
      list == NULL)
    return false;
  const bool found = find_user(list, name.text, user, size);
  free(list);
  return found;
}

/* If an agent is alive and its user is unknown, that user has the rights that an agent needs. */
static void check_agent(struct doctor *self, bool can_dry_run, bool has_agent, bool has_control) {
  const size_t count = sizeof agent_needs / sizeof *agent_needs;
  struct missing_rights missing = {0}, search = {0};
  char user[128], subject[200];
  const bool is_known = has_agent && read_agents_user(self, user, sizeof user);
  if (has_agent && (!is_known || (!can_dry_run && strcmp(user, self->user) != 0)))
    return;
  if (!is_known)
    (void)snprintf(user, sizeof user, "%s", self->user);
  (void)snprintf(subject, sizeof subject,
                 is_known ? "the agent's user %s" : "as an agent's, the user %s", user);
  bool is_answered = !self->is_gone;
  for (size_t i = 0; i < count && is_answered; i++) {
    const struct need *need = &agent_needs[i];
    struct missing_rights *list = need->kind == NEED_SEARCH ? &search : &missing;
    if (need->kind >= NEED_CONTROL && has_agent && !has_control)
      continue;
    if (can_dry_run)
      is_answered = dry_run(self, user, need, list);
    else
      try_need(self, need, list);
  }
  if (is_answered && !is_complete(self, &missing))
    report_missing(self, is_known ? FINDING_PROBLEM : FINDING_WARNING, user, subject, &missing, "");
  if (is_answered && search.names.length > 0)
    report_missing(self, FINDING_WARNING, user, subject, &search,
                   ": a waiting step that was cancelled is only answered when its turn comes");
  if (is_answered && is_complete(self, &missing) && search.names.length == 0)
    doctor_report(self, FINDING_OK, NULL, "ACL: %s has the rights that an agent needs%s", subject,
                  missing.is_unsure ? "; DEL, PERSIST, LPUSH and RPUSH were not tried" : "");
  release_missing(&missing);
  release_missing(&search);
}

void doctor_check_rights(struct doctor *self, bool has_agent, bool has_control) {
  const bool can_dry_run = check_client(self);
  check_agent(self, can_dry_run, has_agent, has_control);
}
