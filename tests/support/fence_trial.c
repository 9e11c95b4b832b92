#include "tests/support/fence_trial.h"

#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/command.h"
#include "tests/support/container.h"
#include "tests/support/redis_server.h"
#include "tests/test.h"

enum { KILLED = 128 + SIGKILL };

bool fence_trial_is_here(void) {
  return getenv("FENCE_HERE") != NULL;
}

const char *fence_place_name(enum fence_place place) {
  static const char *const names[] = {"a plain user", "process 1 of a restricted container",
                                      "a restricted container with an init", "root"};
  return names[place];
}

static void run_command(const char *command) {
  if (system(command) != 0)
    fail_msg("`%s` failed", command);
}

/* ICMP sockets are for everybody, as in the containers of most engines. */
int fence_trial_begin(void **state) {
  (void)state;
  command_begin_group();
  command_build("fence", "", command_path("fence"));
  command_build("attack", "", command_path("attack"));
  if (!fence_trial_is_here()) {
    assert_int_equal(unshare(CLONE_NEWNET), 0);
    run_command("ip link set lo up && echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range");
  }
  return 0;
}

int fence_trial_end(void **state) {
  return command_end_group(state);
}

static const char *unique_name(const struct fence_trial *self) {
  return strrchr(self->path, '/') + 1;
}

static int serve_abstract(int type, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (const struct sockaddr *)&address, size), 0);
  assert_true(type == SOCK_DGRAM || listen(fd, 64) == 0);
  return fd;
}

int fence_trial_set_up(void **state) {
  struct fence_trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  strcpy(self->path, "/tmp/fence-XXXXXX");
  assert_non_null(mkdtemp(self->path));
  assert_int_equal(chmod(self->path, 0777), 0);
  static const char *const protected[] = {"--protected-mode", "no", NULL};
  self->redis = redis_server_start(protected);
  self->servers[0] = serve_abstract(SOCK_STREAM, unique_name(self));
  self->servers[1] = serve_abstract(SOCK_DGRAM, formatted("%s-dgram", unique_name(self)));
  self->owned = cJSON_CreateArray();
  *state = self;
  return 0;
}

int fence_trial_tear_down(void **state) {
  struct fence_trial *self = *state;
  run_command(formatted("rm -rf %s", self->path));
  redis_server_stop(self->redis);
  close(self->servers[0]);
  close(self->servers[1]);
  cJSON_Delete(self->owned);
  free(self);
  return 0;
}

const char *fence_trial_text(const struct fence_trial *self, const char *text) {
  char *out = NULL;
  size_t size;
  FILE *file = open_memstream(&out, &size);
  for (; *text != '\0'; text++)
    if (*text == '@')
      (void)fputs(self->path, file);
    else if (*text == '#')
      (void)fprintf(file, "%d", redis_server_port(self->redis));
    else if (*text == '$')
      (void)fputs(unique_name(self), file);
    else if (*text == '!')
      (void)fputs(command_path("fence"), file);
    else
      (void)fputc(*text, file);
  (void)fclose(file);
  const char *result = formatted("%s", out);
  free(out);
  return result;
}

static void make_files(const struct fence_trial *self) {
  static const char script[] =
      "umask 0; cd %s && rm -rf in out new /dev/shm/%s && mkdir -p in/directory out/directory && "
      "for i in in out; do echo text >$i/file; echo text >$i/other; done && "
      "ln -s ../out in/link && cp %s out/program && cp out/program in/ && "
      "chmod 755 in/program out/program";
  run_command(formatted(script, self->path, unique_name(self), command_path("fence")));
}

static cJSON *script_of(const char *script) {
  return cJSON_CreateStringArray((const char *const[]){"-c", script}, 2);
}

/* An attack of attack_command takes a number: the parent of the supervisor. */
static cJSON *step_json(const struct fence_trial *self, const struct fence_step *step) {
  static const char attack_word[] = "attack ";
  cJSON *json = step->json == NULL ? cJSON_CreateObject()
                                   : cJSON_Parse(quoted(fence_trial_text(self, step->json)));
  assert_non_null(json);
  cJSON_AddStringToObject(json, "stepId", "1");
  const char *words = step->command == NULL ? "" : fence_trial_text(self, step->command);
  bool is_attack = strncmp(words, attack_word, strlen(attack_word)) == 0;
  if (step->script != NULL || is_attack) {
    const char *script = is_attack ? formatted("exec %s %s $(cut -d' ' -f4 /proc/$PPID/stat)",
                                               command_path("attack"), words + strlen(attack_word))
                                   : fence_trial_text(self, step->script);
    cJSON_AddStringToObject(json, "command", "sh");
    cJSON_AddItemToObject(json, "args", script_of(script));
  } else if (step->json == NULL) {
    cJSON_AddStringToObject(json, "command", command_path("fence"));
    cJSON *arguments = cJSON_AddArrayToObject(json, "args");
    const char *word;
    for (size_t i = 0; (word = nth_word(words, i)) != NULL; i++)
      cJSON_AddItemToArray(arguments, cJSON_CreateString(word));
  }
  if (step->fence != NULL) {
    cJSON *fence = cJSON_Parse(quoted(fence_trial_text(self, step->fence)));
    assert_non_null(fence);
    cJSON_AddItemToObject(json, "fence", fence);
  }
  return json;
}

struct preparation {
  int input;
  const struct fence_step *step;
};

static void prepare(const void *context) {
  const struct preparation *self = context;
  (void)dup2(self->input, STDIN_FILENO);
  (void)setpgid(0, 0); /* so that the agent's group has no process of the test */
  if (self->step->prepare != NULL)
    self->step->prepare(self->step->prepare_context);
}

static int input_of(const struct fence_trial *self, const struct fence_step *step) {
  cJSON *json = step_json(self, step);
  char *text = cJSON_PrintUnformatted(json);
  int fd = memfd_create("input", MFD_CLOEXEC);
  size_t length = strlen(text);
  assert_true(fd >= 0 && write(fd, text, length) == (ssize_t)length && lseek(fd, 0, SEEK_SET) == 0);
  free(text);
  cJSON_Delete(json);
  return fd;
}

static struct agent_process *start(const struct fence_trial *self, const struct fence_step *step,
                                   int input) {
  static const struct container containers[FENCE_PLACES] = {
      [FENCE_POD] = {.restricted = true},
      [FENCE_INIT] = {.restricted = true, .init = true},
      [FENCE_ROOT] = {.init = true},
  };
  const char *policy =
      step->agent_fence == NULL ? NULL : quoted(fence_trial_text(self, step->agent_fence));
  const char *const arguments[] = {"--once", policy == NULL ? NULL : "--fence", policy, NULL};
  const struct preparation preparation = {input, step};
  const struct container *container = step->container;
  if (container == NULL && step->place != FENCE_PLAIN)
    container = &containers[step->place];
  bool is_here = fence_trial_is_here();
  return agent_process_start(
      &(struct agent_setup){.arguments = arguments,
                            .directory = self->path,
                            .uid = !is_here && container == NULL ? FENCE_USER + (uid_t)getpid() : 0,
                            .container = is_here ? NULL : container,
                            .inherited_fd = input,
                            .prepare = prepare,
                            .prepare_context = &preparation});
}

static const char *text_of(const cJSON *object, const char *member) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, member));
  return text == NULL ? "" : text;
}

static void read_answer(struct fence_outcome *out) {
  const cJSON *result = cJSON_GetArrayItem(out->events, cJSON_GetArraySize(out->events) - 1);
  const char *output = text_of(result, "outputContent");
  const char *message = text_of(result, "errorMessage");
  if (out->exit_code == -SIGKILL || (out->exit_code == KILLED && *message == '\0'))
    (void)snprintf(out->answer, sizeof out->answer, "killed");
  else if (result == NULL)
    (void)snprintf(out->answer, sizeof out->answer, "exit code %d: %s", out->exit_code, out->log);
  else
    (void)snprintf(out->answer, sizeof out->answer, "%s", *message != '\0' ? message : output);
  size_t length = strlen(out->answer);
  if (length > 0 && out->answer[length - 1] == '\n')
    out->answer[length - 1] = '\0';
}

static const char *own_text(struct fence_trial *self, const char *text) {
  cJSON *item = cJSON_CreateString(text);
  cJSON_AddItemToArray(self->owned, item);
  return item->valuestring;
}

struct agent_process *fence_trial_start(struct fence_trial *self, const struct fence_step *step) {
  make_files(self);
  int input = input_of(self, step);
  struct agent_process *agent = start(self, step, input);
  close(input);
  return agent;
}

void fence_trial_finish(struct fence_trial *self, struct agent_process *agent,
                        struct fence_outcome *out) {
  *out = (struct fence_outcome){.exit_code = agent_process_wait(agent, WAIT_BOUND_MS),
                                .log = own_text(self, agent_process_log(agent))};
  cJSON *events = cJSON_CreateArray();
  cJSON_AddItemToArray(self->owned, events);
  out->events = events;
  char *output = strdup(agent_process_output(agent)), *rest = output;
  for (const char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';)
    cJSON_AddItemToArray(events, cJSON_Parse(line));
  free(output);
  agent_process_free(agent);
  read_answer(out);
}

void fence_trial_run(struct fence_trial *self, const struct fence_step *step,
                     struct fence_outcome *out) {
  fence_trial_finish(self, fence_trial_start(self, step), out);
}

const cJSON *fence_outcome_started(const struct fence_outcome *self) {
  return cJSON_GetObjectItem(cJSON_GetArrayItem(self->events, 0), "fence");
}

bool fence_outcome_lists(const struct fence_outcome *self, const char *member, const char *word) {
  const cJSON *list = cJSON_GetObjectItem(fence_outcome_started(self), member), *item;
  cJSON_ArrayForEach(item, list) {
    const char *text = cJSON_GetStringValue(item);
    if (text != NULL && strcmp(text, word) == 0)
      return true;
  }
  return false;
}

void fence_trial_expect(struct fence_trial *self, const struct fence_step *step,
                        const char *answer) {
  struct fence_outcome outcome;
  fence_trial_run(self, step, &outcome);
  if (strcmp(outcome.answer, answer) != 0)
    fail_msg("%s: `%s` with %s: %s, not %s", fence_place_name(step->place),
             step->command != NULL  ? step->command
             : step->script != NULL ? step->script
                                    : step->json,
             step->fence == NULL ? "no policy" : step->fence, outcome.answer, answer);
}
