#include "tests/support/sidecar.h"

#include <sys/mount.h>

#include "tests/test.h"

enum { ARGUMENTS_MAX = 16, POLL_MS = 150 };

/* A result is the work of several processes, and tests run in parallel. */
enum { BOUND_MS = 3 * WAIT_BOUND_MS };

int sidecar_set_up(void **state) {
  struct sidecar *self = calloc(1, sizeof *self);
  assert_non_null(self);
  void *tree;
  assert_int_equal(tree_set_up(&tree), 0);
  self->tree = tree;
  (void)snprintf(self->path, sizeof self->path, "%s", self->tree->path);
  *state = self;
  return 0;
}

int sidecar_tear_down(void **state) {
  struct sidecar *self = *state;
  agent_process_free(self->agent);
  if (self->mounted)
    assert_int_equal(umount2(self->path, MNT_DETACH), 0);
  void *tree = self->tree;
  assert_int_equal(tree_tear_down(&tree), 0);
  cJSON_Delete(self->result);
  free(self);
  return 0;
}

void sidecar_mount(struct sidecar *self, const char *options) {
  tree_make(self->tree, "m/");
  (void)snprintf(self->path, sizeof self->path, "%s", tree_path(self->tree, "m"));
  assert_int_equal(mount("ipc", self->path, "tmpfs", 0, options), 0);
  self->mounted = true;
}

struct agent_process *sidecar_spawn(struct sidecar *self, const struct agent_setup *setup) {
  static const struct agent_setup none;
  struct agent_setup own = setup != NULL ? *setup : none;
  const char *arguments[ARGUMENTS_MAX + 2] = {formatted("--ipc=%s", self->path)};
  for (size_t i = 0; own.arguments != NULL && own.arguments[i] != NULL; i++) {
    assert_true(i < ARGUMENTS_MAX);
    arguments[i + 1] = own.arguments[i];
  }
  own.arguments = arguments;
  return agent_process_start(&own);
}

void sidecar_start(struct sidecar *self, const struct agent_setup *setup) {
  assert_null(self->agent);
  self->agent = sidecar_spawn(self, setup);
  agent_process_wait_log(self->agent, "[tool-executor] started, watching ");
}

void sidecar_kill(struct sidecar *self) {
  assert_int_equal(kill(agent_process_pid(self->agent), SIGKILL), 0);
  (void)agent_process_wait(self->agent, WAIT_BOUND_MS);
  agent_process_free(self->agent);
  self->agent = NULL;
}

/* --- names ------------------------------------------------------------------------------------ */

const char *sidecar_path(const struct sidecar *self, const char *name) {
  return formatted("%s/%s", self->path, name);
}

const char *sidecar_request_name(const char *id) {
  return formatted("tools/exec-request-%s.json", id);
}

const char *sidecar_result_name(const char *id) {
  return formatted("tools/exec-result-%s.json", id);
}

const char *sidecar_claim_name(const char *id) {
  return formatted("tools/.claim-%s", id);
}

static bool is_there(const char *path) {
  return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool sidecar_has(const struct sidecar *self, const char *name) {
  return is_there(sidecar_path(self, name));
}

struct expected_path {
  const char *path;
  bool there;
};

static bool is_as_expected(void *context) {
  const struct expected_path *expected = context;
  return is_there(expected->path) == expected->there;
}

static void wait_for_path(struct sidecar *self, const char *name, bool there) {
  struct expected_path expected = {sidecar_path(self, name), there};
  if (!wait_until(is_as_expected, &expected, BOUND_MS))
    agent_process_fail(self->agent, "there is %s %s", there ? "no" : "still", expected.path);
}

void sidecar_wait_for(struct sidecar *self, const char *name) {
  wait_for_path(self, name, true);
}

void sidecar_wait_gone(struct sidecar *self, const char *name) {
  wait_for_path(self, name, false);
}

struct expected_log {
  struct sidecar *sidecar;
  const char *text;
};

static bool logs_state(void *context) {
  const struct expected_log *expected = context;
  struct agent_process *agent = expected->sidecar->agent;
  assert_int_equal(kill(agent_process_pid(agent), SIGUSR1), 0);
  return agent_process_count_log(agent, expected->text) > 0;
}

static void wait_for_state(struct sidecar *self, const char *text) {
  struct expected_log expected = {self, text};
  if (!wait_until(logs_state, &expected, BOUND_MS))
    agent_process_fail(self->agent, "the state is never `%s`", text);
}

void sidecar_wait_known(struct sidecar *self, int requests) {
  wait_for_state(self, formatted(", %d requests known, ", requests));
}

void sidecar_wait_read(struct sidecar *self, int requests) {
  wait_for_state(self, formatted(", %d requests known, 0 to be read, ", requests));
}

/* --- requests --------------------------------------------------------------------------------- */

void sidecar_write(const struct sidecar *self, const char *name, const char *bytes, size_t length) {
  int fd = open(sidecar_path(self, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, length), length);
  assert_int_equal(close(fd), 0);
}

void sidecar_request(const struct sidecar *self, const char *id, const char *request) {
  const char *text = quoted(request);
  sidecar_write(self, sidecar_request_name(id), text, strlen(text));
}

void sidecar_request_whole(const struct sidecar *self, const char *id, const char *request) {
  const char *text = quoted(request), *name = formatted("tools/new-%s", id);
  sidecar_write(self, name, text, strlen(text));
  assert_int_equal(rename(sidecar_path(self, name), sidecar_path(self, sidecar_request_name(id))),
                   0);
}

void sidecar_delete(const struct sidecar *self, const char *id) {
  assert_int_equal(unlink(sidecar_path(self, sidecar_request_name(id))), 0);
  assert_int_equal(unlink(sidecar_path(self, sidecar_result_name(id))), 0);
}

/* --- results ---------------------------------------------------------------------------------- */

static char *read_whole(const char *path) {
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return NULL;
  char *text = NULL;
  size_t size = 0;
  ssize_t length = getdelim(&text, &size, '\0', file);
  (void)fclose(file);
  if (length >= 0)
    return text;
  free(text);
  return strdup("");
}

/* Whether the result exists; reads it into `result`. It appears complete: one line of JSON. */
static bool read_result(struct sidecar *self, const char *path) {
  char *text = read_whole(path);
  if (text == NULL)
    return false;
  cJSON_Delete(self->result);
  self->result = cJSON_Parse(text);
  char *end = strchr(text, '\n');
  if (self->result == NULL || end == NULL || end[1] != '\0')
    agent_process_fail(self->agent, "the result is not a line of JSON: `%s`", text);
  free(text);
  return true;
}

struct expected_result {
  struct sidecar *sidecar;
  const char *path;
};

static bool has_result(void *context) {
  const struct expected_result *expected = context;
  return read_result(expected->sidecar, expected->path);
}

static const char *result_path(const struct sidecar *self, const char *id) {
  return sidecar_path(self, sidecar_result_name(id));
}

const cJSON *sidecar_result(struct sidecar *self, const char *id) {
  struct expected_result expected = {self, result_path(self, id)};
  if (!wait_until(has_result, &expected, BOUND_MS))
    agent_process_fail(self->agent, "no result of %s", id);
  const cJSON *result = self->result;
  static const char *const fields[] = {"id", "exitCode", "stdout", "stderr", "timedOut"};
  assert_int_equal(cJSON_GetArraySize(result), sizeof fields / sizeof *fields);
  for (int i = 0; i < 5; i++)
    assert_string_equal(cJSON_GetArrayItem(result, i)->string, fields[i]);
  assert_string_equal(cJSON_GetObjectItem(result, "id")->valuestring, id);
  return result;
}

void sidecar_expect(struct sidecar *self, const char *id, int exit_code, const char *output,
                    const char *errors) {
  const cJSON *result = sidecar_result(self, id);
  const char *got_output = cJSON_GetObjectItem(result, "stdout")->valuestring;
  const char *got_errors = cJSON_GetObjectItem(result, "stderr")->valuestring;
  int got_code = cJSON_GetObjectItem(result, "exitCode")->valueint;
  if (got_code != exit_code || strcmp(got_output, output) != 0 ||
      (errors != NULL && strcmp(got_errors, errors) != 0) ||
      cJSON_IsTrue(cJSON_GetObjectItem(result, "timedOut")))
    agent_process_fail(self->agent, "%s: exit code %d, stdout `%.500s`, stderr `%.500s`", id,
                       got_code, got_output, got_errors);
}

const cJSON *sidecar_dispatch(struct sidecar *self, const char *id, const char *request,
                              int bound_ms) {
  const char *path = result_path(self, id);
  sidecar_request(self, id, request);
  for (int64_t end_ms = wait_now_ms() + bound_ms; wait_now_ms() < end_ms;) {
    if (read_result(self, path)) {
      sidecar_delete(self, id);
      return self->result;
    }
    (void)usleep(POLL_MS * 1000); /* like the runner */
  }
  return NULL;
}
