#include "client/steps/run_policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/redis/json_field.h"
#include "client/steps/step_text.h"
#include "wire/features.h"
#include "wire/json.h"
#include "wire/policy.h"

/* The most bytes of an object: all paths and ports that it may have are fewer. */
#define OBJECT_MAX ((size_t)1024 * 1024)

/* --- options ---------------------------------------------------------------------------------- */

static int read_file(const char *option, const char *path, struct buffer *text,
                     struct error *error) {
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return error_set(error, "%s: cannot read %s: %s", option, path, strerror(errno));
  text->length = fread(buffer_space(text, OBJECT_MAX + 2), 1, OBJECT_MAX + 1, file);
  const int reason = ferror(file) ? errno : 0;
  (void)fclose(file);
  if (reason != 0)
    return error_set(error, "%s: cannot read %s: %s", option, path, strerror(reason));
  if (text->length > OBJECT_MAX)
    return error_set(error, "%s: %s has more than %zu bytes", option, path, OBJECT_MAX);
  if (memchr(text->bytes, '\0', text->length) != NULL)
    return error_set(error, "%s: %s is not JSON", option, path);
  return 0;
}

/* Reads JSON or @FILE. The text gets a NUL, which its length does not count. */
static int read_text(const char *option, const char *value, struct buffer *text,
                     struct error *error) {
  if (value[0] != '@')
    buffer_add_string(text, value);
  else if (read_file(option, value + 1, text, error) != 0)
    return -1;
  *(char *)buffer_space(text, 1) = '\0';
  return 0;
}

/* Both options stand for one member of the fence. */
static int check_conflicts(const struct run_policy *self, const struct policy_fence *fence,
                           const cJSON *network, struct error *error) {
  if (self->read_only && fence->write_paths != NULL && fence->write_paths[0] != NULL)
    return error_set(error, "--read-only: --fence has other writePaths");
  if (self->no_network && network != NULL && fence->network != POLICY_NETWORK_NONE)
    return error_set(error, "--no-network: --fence has the network \"%s\"",
                     policy_network_name(fence->network));
  return 0;
}

static void add_member(struct buffer *json, const char *name, const char *value, size_t length) {
  buffer_add_format(json, "%s\"%s\":", json->length > 1 ? "," : "", name);
  buffer_add(json, value, length);
}

/* Copies the members, whose names are known, except those that are null: they count as absent. The
   options replace members that are equal. */
static void merge(const struct run_policy *self, const struct buffer *text, const cJSON *members,
                  struct buffer *json) {
  buffer_add_string(json, "{");
  if (self->read_only)
    add_member(json, "writePaths", "[]", 2);
  if (self->no_network)
    add_member(json, "network", "\"none\"", 6);
  for (const cJSON *item = members; item != NULL; item = item->next) {
    struct json_member member;
    const bool is_replaced = (self->read_only && strcmp(item->string, "writePaths") == 0) ||
                             (self->no_network && strcmp(item->string, "network") == 0);
    if (!cJSON_IsNull(item) && !is_replaced &&
        json_member_find(text->bytes, text->length, item->string, &member))
      add_member(json, item->string, member.text, member.length);
  }
  buffer_add_string(json, "}");
}

static int read_fence(struct run_policy *self, struct error *error) {
  struct buffer text = {0};
  struct error ignored;
  int result =
      read_text("--fence", self->fence_option != NULL ? self->fence_option : "{}", &text, error);
  struct policy_fence *fence = result == 0 ? policy_parse_step_fence(text.bytes, error) : NULL;
  result = -1;
  if (fence != NULL) {
    cJSON *tree = json_tree_parse(text.bytes, text.length, &ignored);
    const cJSON *network = cJSON_GetObjectItemCaseSensitive(tree, "network");
    result = check_conflicts(self, fence, cJSON_IsNull(network) ? NULL : network, error);
    if (result == 0)
      merge(self, &text, tree != NULL ? tree->child : NULL, &self->fence);
    cJSON_Delete(tree);
  }
  policy_free(&policy_fence_table, fence);
  buffer_release(&text);
  return result;
}

static int read_limits(struct run_policy *self, struct error *error) {
  if (read_text("--limits", self->limits_option, &self->limits, error) != 0)
    return -1;
  struct policy_limits *limits = policy_parse_limits(self->limits.bytes, error);
  const bool is_valid = limits != NULL;
  policy_free(&policy_limits_table, limits);
  return is_valid ? 0 : -1;
}

int run_policy_read(struct run_policy *self, struct error *error) {
  const bool has_fence = self->fence_option != NULL || self->read_only || self->no_network;
  if (has_fence && read_fence(self, error) != 0)
    return -1;
  return self->limits_option != NULL ? read_limits(self, error) : 0;
}

void run_policy_release(struct run_policy *self) {
  buffer_release(&self->fence);
  buffer_release(&self->limits);
}

/* --- the step --------------------------------------------------------------------------------- */

bool run_policy_is_set(const struct run_policy *self) {
  return self->fence.length > 0 || self->limits.length > 0;
}

int run_policy_check(const struct run_policy *self, const struct job_agent *agent,
                     struct error *error) {
  const char *option = NULL, *feature = NULL;
  if (self->fence.length > 0 && !job_agent_can(agent, FEATURE_FENCE)) {
    option = self->fence_option != NULL ? "--fence"
             : self->read_only          ? "--read-only"
                                        : "--no-network";
    feature = FEATURE_FENCE;
  } else if (self->limits.length > 0 && !job_agent_can(agent, FEATURE_LIMITS)) {
    option = "--limits";
    feature = FEATURE_LIMITS;
  }
  if (option == NULL)
    return 0;
  return error_set(error, "%s needs an agent that announces the feature %s (0.4.0 or later)%s",
                   option, feature, agent->is_alive ? "" : ", and there is no heartbeat");
}

void run_policy_add(const struct run_policy *self, struct buffer *json) {
  if (self->fence.length > 0)
    step_text_json(json, "fence", self->fence.bytes, self->fence.length);
  if (self->limits.length > 0)
    step_text_json(json, "limits", self->limits.bytes, self->limits.length);
}

/* --- its end ---------------------------------------------------------------------------------- */

void run_policy_see(struct run_policy *self, const struct event_view *view) {
  struct json_member member;
  if (view->kind == STEP_EVENT_STARTED && self->fence.length > 0)
    self->is_ignored = !json_member_find(view->json, view->length, "fence", &member);
}

static void say_missing(struct terminal *terminal, const cJSON *missing) {
  struct buffer words = {0};
  const cJSON *word;
  cJSON_ArrayForEach(word, missing) {
    if (cJSON_IsString(word))
      buffer_add_format(&words, "%s%s", words.length > 0 ? ", " : "", word->valuestring);
  }
  if (words.length > 0)
    terminal_say(terminal, COLOR_YELLOW, "sandbox: not enforced: %.*s", (int)words.length,
                 words.bytes);
  buffer_release(&words);
}

/* The agent concludes from the output what was denied, and may be unsure. */
static void say_denials(struct terminal *terminal, const cJSON *denials) {
  const cJSON *denial;
  cJSON_ArrayForEach(denial, denials) {
    const char *access = json_field_text(denial, "access", "");
    const char *path = json_field_text(denial, "path", "");
    const bool is_unsure = cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(denial, "certain"));
    if (access[0] != '\0')
      terminal_say(terminal, COLOR_YELLOW, "sandbox: %sdenied by the sandbox policy: %s%s%s",
                   is_unsure ? "perhaps " : "", access, path[0] != '\0' ? " " : "", path);
  }
}

static bool was_executed(const cJSON *result) {
  const char *cause = json_field_text(cJSON_GetObjectItemCaseSensitive(result, "end"), "cause", "");
  return strcmp(cause, "refused") != 0 && strcmp(cause, "notStarted") != 0;
}

bool run_policy_report(const struct run_policy *self, struct program *program, const char *result) {
  struct error ignored;
  cJSON *tree = result != NULL ? json_tree_parse(result, strlen(result), &ignored) : NULL;
  const cJSON *fence = cJSON_GetObjectItemCaseSensitive(tree, "fence");
  const bool is_obeyed = !self->is_ignored || !was_executed(tree);
  if (!program->json) {
    say_missing(&program->terminal, cJSON_GetObjectItemCaseSensitive(fence, "missing"));
    say_denials(&program->terminal, cJSON_GetObjectItemCaseSensitive(fence, "denials"));
  }
  if (!is_obeyed)
    terminal_error(&program->terminal,
                   "the agent has executed the step without its sandbox policy");
  cJSON_Delete(tree);
  return is_obeyed;
}
