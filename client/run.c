/*
 * Pushes a step, and shows its events until `completed`; then its result is taken, which is nobody else's.
 * Everything that may wait is done here from the loop in wait_for_end, between two turns: the events go on
 * meanwhile.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/job.h"
#include "client/outcome.h"
#include "client/program.h"
#include "client/step_text.h"
#include "client/stream.h"

/* How often it is looked whether all is well. */
#define LOOK_MS 2000

/* After that an agent without a heartbeat is gone, and a step that is nowhere is lost. */
#define AGENT_GONE_MS 60000
#define LOST_MS 10000

/* An agent ends what is cancelled within 10 s. */
#define CANCEL_MS 12000

/* What is read from standard input, and a whole step, at the most (wire/PROTOCOL.md). */
#define INPUT_MAX ((size_t)16 * 1024 * 1024)
#define STEP_MAX ((size_t)64 * 1024 * 1024)

struct options {
  const char *directory, *script, *id;
  char **variables; /* NAME=value */
  size_t variable_count;
  unsigned long long timeout;
  bool input, detach;
  char **command;
  int words;
};

struct run {
  struct program *program;
  const struct options *options;
  char id[STEP_ID_SIZE];
  struct job_short_id name;
  struct server *reader;
  struct stream stream;
  int signal_fd;
  struct event *signals, *tick;
  int signal;          /* that came and was not looked at; 0: none */
  unsigned interrupts; /* so far */
  bool is_started, is_over, was_cancelled;
  bool is_unread;       /* nobody reads what it prints */
  int64_t discarded_ms; /* since when nothing is printed any more; 0: it is */
  int exit_code;        /* of `completed` */
  bool timed_out;
  uint64_t seq;       /* of the last event */
  int64_t looked_ms;  /* when all was well last; monotonic */
  int64_t beat_ms;    /* when there was a heartbeat */
  int64_t present_ms; /* when the step was somewhere */
  const char *failed; /* why the stream cannot be read; NULL: it can */
};

/* --- events ----------------------------------------------------------------------------------- */

static void show_line(struct run *self, const struct event_view *view) {
  struct terminal *terminal = &self->program->terminal;
  bool to_stderr = view->kind == STEP_EVENT_STDERR;
  if (terminal_put(terminal, to_stderr, view->line, view->line_length) != 0 ||
      (!view->partial && terminal_put(terminal, to_stderr, "\n", 1) != 0))
    self->is_unread = true;
}

static void show_json(struct run *self, const char *json, size_t length) {
  if (fwrite(json, 1, length, stdout) != length || fputc('\n', stdout) == EOF)
    self->is_unread = true;
}

static void on_event(void *owner, const char *entry, const char *json, size_t length,
                     const struct event_view *view) {
  struct run *self = owner;
  (void)entry;
  if (self->is_over || view->step_id_length != strlen(self->id) ||
      memcmp(view->step_id, self->id, view->step_id_length) != 0 || view->seq <= self->seq)
    return;
  if (view->seq > self->seq + 1 && !self->program->json)
    terminal_say(&self->program->terminal, COLOR_YELLOW, "… %llu lines were trimmed …",
                 (unsigned long long)(view->seq - self->seq - 1));
  self->seq = view->seq;
  self->is_started = true;
  if (self->discarded_ms == 0 && self->program->json)
    show_json(self, json, length);
  else if (self->discarded_ms == 0 &&
           (view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR))
    show_line(self, view);
  if (view->kind == STEP_EVENT_COMPLETED)
    self->is_over = event_read_completed(view, &self->exit_code, &self->timed_out);
}

static void on_turn(void *owner) {
  struct run *self = owner;
  if (terminal_flush(&self->program->terminal) != 0)
    self->is_unread = true;
}

static void on_failed(void *owner, const char *why) {
  struct run *self = owner;
  self->failed = why;
  self->is_over = true;
}

static const struct stream_handler stream_handler = {
    .event = on_event, .turn = on_turn, .failed = on_failed};

/* --- signals ---------------------------------------------------------------------------------- */

LOOP_CALLBACK(on_signals, struct run *self) {
  struct signalfd_siginfo info;
  if (read(self->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
    self->signal = (int)info.ssi_signo;
}

LOOP_CALLBACK(on_tick, struct run *self) {
  loop_timer_start(self->tick, LOOK_MS / 4);
}

static void watch_signals(struct run *self) {
  static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  sigset_t set;
  (void)sigemptyset(&set);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    (void)sigaddset(&set, numbers[i]);
  (void)sigprocmask(SIG_BLOCK, &set, NULL);
  self->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  self->signals =
      loop_event_new(self->program->base, self->signal_fd, EV_READ | EV_PERSIST, on_signals, self);
  self->tick = loop_timer_new(self->program->base, on_tick, self);
  loop_timer_start(self->tick, LOOK_MS / 4);
}

/* Returns 0, or -1 when that could not be said. */
static int cancel(struct run *self) {
  struct buffer json = {0};
  struct error error;
  step_text_begin(&json, self->id, "cancel");
  step_text_end(&json);
  int64_t length = 0;
  int result =
      server_call(self->program->server, SERVER_WORDS("LPUSH", self->program->keys.in, json.bytes),
                  server_take_number, &length, &error);
  buffer_release(&json);
  self->was_cancelled = true;
  if (result != 0)
    terminal_error(&self->program->terminal, "cannot cancel %s: %s", self->name.text, error.text);
  return result;
}

/* The code to leave with; -1: it goes on. */
static int obey_interrupt(struct run *self) {
  struct terminal *terminal = &self->program->terminal;
  if (++self->interrupts == 1) {
    terminal_say(terminal, COLOR_YELLOW, "cancelling %s  (^\\ leaves it running)", self->name.text);
    return cancel(self) == 0 ? -1 : EXIT_CLIENT;
  }
  terminal_say(terminal, COLOR_YELLOW, "%s is being ended: its agent kills it within 10 s",
               self->name.text);
  return self->interrupts < 3 ? -1 : EXIT_CANCELLED;
}

static int obey_signal(struct run *self) {
  int signal = self->signal;
  self->signal = 0;
  if (signal == SIGINT)
    return obey_interrupt(self);
  if (signal == SIGQUIT)
    terminal_say(&self->program->terminal, COLOR_NONE, "%s goes on: sandbox follow %s",
                 self->name.text, self->name.text);
  else
    (void)cancel(self);
  return 128 + signal;
}

/* --- whether all is well ----------------------------------------------------------------------- */

static void show_place(struct run *self, const struct job_steps *steps) {
  char text[80];
  size_t before = 0;
  while (before < steps->count && strcmp(steps->list[before].id, self->id) != 0)
    before++;
  if (before == steps->count || before == 0)
    return;
  (void)snprintf(text, sizeof text, "%s waits for %zu step%s", self->name.text, before,
                 before == 1 ? "" : "s");
  terminal_status(&self->program->terminal, text);
}

/* Whether the step waits or runs, or has a result. */
static bool is_somewhere(struct run *self) {
  struct job_steps steps;
  struct error error;
  bool found = job_read_steps(self->program, &steps, &error) != 0;
  for (size_t i = 0; i < steps.count; i++)
    found |= strcmp(steps.list[i].id, self->id) == 0;
  if (!self->is_started)
    show_place(self, &steps);
  job_steps_release(&steps);
  return found;
}

/* What is wrong, as an exit code; -1: nothing. */
static int look(struct run *self) {
  struct program *program = self->program;
  struct job_agent agent;
  struct error error;
  int64_t now_ms = clock_monotonic_ms();
  if (server_away_ms(self->reader) > SERVER_PATIENCE_MS) {
    server_trouble(self->reader, &error);
    terminal_error(&program->terminal, "redis is gone: %s", error.text);
    return EXIT_CLIENT;
  }
  if (now_ms < self->looked_ms + LOOK_MS || server_away_ms(program->server) > 0)
    return -1;
  self->looked_ms = now_ms;
  if (job_read_agent(program, program->keys.heartbeat, &agent, &error) == 0 && agent.is_alive)
    self->beat_ms = now_ms;
  job_agent_release(&agent);
  if (is_somewhere(self))
    self->present_ms = now_ms;
  if (now_ms - self->beat_ms > AGENT_GONE_MS) {
    terminal_error(&program->terminal, "the agent is gone: %s is not answered", self->name.text);
    return EXIT_CLIENT;
  }
  if (now_ms - self->present_ms > LOST_MS && !self->is_over) {
    terminal_error(&program->terminal, "%s is neither waiting nor running, and has no result",
                   self->name.text);
    return EXIT_CLIENT;
  }
  return -1;
}

/* --- the end ----------------------------------------------------------------------------------- */

static int finish(struct run *self) {
  struct program *program = self->program;
  struct error error;
  char *result = NULL;
  /* The result leaves right behind the event. */
  for (int i = 0; i < 10 && result == NULL; i++) {
    if (i > 0)
      server_turn(program->server);
    if (job_take_result(program, self->id, &result, &error) != 0)
      break;
  }
  struct outcome outcome =
      outcome_make(result, self->exit_code, self->timed_out, self->was_cancelled);
  if (program->json) {
    (void)printf("{\"result\":%s}\n", result != NULL ? result : "null");
  } else if (outcome.code == EXIT_CLIENT || outcome.code == EXIT_NOT_FOUND ||
             outcome.code == EXIT_NOT_EXECUTABLE) {
    if (outcome.is_known)
      terminal_error(&program->terminal, "%s", outcome.what);
  }
  outcome_say(program, self->name.text, &outcome);
  free(result);
  return self->is_unread ? 128 + SIGPIPE : outcome.code;
}

/* A reader that is gone is seen also while nothing is printed. */
static void look_for_reader(struct run *self) {
  struct pollfd out = {.fd = STDOUT_FILENO};
  if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0)
    self->is_unread = true;
}

/* Its end is waited for, so that its result does not stay. */
static int give_up_unread(struct run *self) {
  if (self->discarded_ms == 0) {
    self->discarded_ms = clock_monotonic_ms();
    (void)cancel(self);
  }
  return clock_monotonic_ms() > self->discarded_ms + CANCEL_MS ? 128 + SIGPIPE : -1;
}

static int wait_for_end(struct run *self) {
  int code = -1;
  self->beat_ms = self->present_ms = self->looked_ms = clock_monotonic_ms();
  while (code < 0 && !self->is_over) {
    (void)event_base_loop(self->program->base, EVLOOP_ONCE);
    look_for_reader(self);
    if (self->signal != 0)
      code = obey_signal(self);
    else if (self->is_unread && !self->is_over)
      code = give_up_unread(self);
    else if (!self->is_over)
      code = look(self);
  }
  terminal_status(&self->program->terminal, "");
  if (code >= 0)
    return code;
  if (self->failed == NULL)
    return finish(self);
  terminal_error(&self->program->terminal, "cannot read the events: %s", self->failed);
  return EXIT_CLIENT;
}

static void take_last(void *last, const redisReply *reply) {
  if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
      reply->element[0]->type == REDIS_REPLY_ARRAY && reply->element[0]->elements > 0)
    (void)snprintf(last, 48, "%s", reply->element[0]->element[0]->str);
}

static int push_and_wait(struct run *self, const char *json, struct error *error) {
  struct program *program = self->program;
  char last[48] = "0-0";
  if (server_call(program->server,
                  SERVER_WORDS("XREVRANGE", program->keys.events, "+", "-", "COUNT", "1"),
                  take_last, last, error) != 0)
    return -1;
  watch_signals(self);
  if (job_push(program, self->id, json, error) != 0)
    return -1;
  if (self->options->detach) {
    (void)printf("%s\n", self->id);
    return 0;
  }
  self->reader = server_new(program->base, &program->url, "sandbox-run");
  stream_begin(&self->stream, self->reader, program->keys.events, last, &stream_handler, self);
  int code = wait_for_end(self);
  stream_end(&self->stream);
  server_free(self->reader);
  return code;
}

/* --- the step ----------------------------------------------------------------------------------- */

static int read_input(struct buffer *input, struct error *error) {
  ssize_t length;
  do {
    char *space = buffer_space(input, 64 * 1024);
    length = read(STDIN_FILENO, space, 64 * 1024);
    if (length > 0)
      input->length += (size_t)length;
  } while ((length > 0 || (length < 0 && errno == EINTR)) && input->length <= INPUT_MAX);
  if (length < 0)
    return error_set(error, "standard input: %s", strerror(errno));
  if (input->length > INPUT_MAX)
    return error_set(error, "standard input has more than %zu bytes: use cp", INPUT_MAX);
  for (size_t at = 0, step; at < input->length; at += step) {
    step = utf8_sequence(input->bytes + at, input->length - at);
    if (step == 0)
      return error_set(error, "standard input is not UTF-8: use cp");
  }
  return 0;
}

static int make_step(const struct options *options, const char *id, struct buffer *json,
                     struct error *error) {
  static char dash_c[] = "-c";
  struct buffer input = {0};
  int result = options->input ? read_input(&input, error) : 0;
  step_text_begin(json, id, "run");
  step_text_string(json, "command", options->script != NULL ? "sh" : options->command[0]);
  if (options->script != NULL) {
    char *const args[] = {dash_c, (char *)options->script};
    step_text_strings(json, "args", args, 2);
  } else {
    step_text_strings(json, "args", options->command + 1, (size_t)options->words - 1);
  }
  if (options->directory != NULL)
    step_text_string(json, "workingDirectory", options->directory);
  if (options->timeout > 0)
    step_text_number(json, "timeoutSeconds", options->timeout);
  if (options->variable_count > 0)
    step_text_variables(json, "env", options->variables, options->variable_count);
  if (options->input)
    step_text_bytes(json, "stdin", input.length > 0 ? input.bytes : "", input.length);
  step_text_end(json);
  buffer_release(&input);
  if (result == 0 && json->length > STEP_MAX)
    result = error_set(error, "the step has %zu bytes, of %zu at the most: use cp", json->length,
                       STEP_MAX);
  return result;
}

/* Without one the step would wait for an agent that may never come. */
static int check_agent(struct program *program, const struct options *options,
                       struct error *error) {
  struct job_agent agent;
  struct job_steps steps;
  if (job_read_agent(program, program->keys.heartbeat, &agent, error) != 0)
    return -1;
  bool needs_stdin = options->input && agent.version != NULL && !job_agent_can(&agent, "stdin");
  bool is_alive = agent.is_alive;
  job_agent_release(&agent);
  if (is_alive)
    return needs_stdin ? error_set(error, "-i needs an agent with stdin") : 0;
  if (job_read_steps(program, &steps, error) != 0)
    return -1;
  const size_t waiting = steps.count;
  job_steps_release(&steps);
  return error_set(error,
                   "no agent for %.60s: no heartbeat, and %zu steps wait; --detach pushes all "
                   "the same",
                   program->job, waiting);
}

static int run_step(struct program *program, const struct options *options) {
  struct run self = {.program = program, .options = options, .signal_fd = -1};
  struct buffer json = {0};
  struct error error;
  if (options->id != NULL)
    (void)snprintf(self.id, sizeof self.id, "%s", options->id);
  else
    step_id_make(self.id);
  self.name = job_shorten(NULL, self.id);
  int code = -1;
  if ((options->detach || check_agent(program, options, &error) == 0) &&
      make_step(options, self.id, &json, &error) == 0)
    code = push_and_wait(&self, json.bytes, &error);
  if (code < 0) {
    terminal_error(&program->terminal, "%s", error.text);
    code = EXIT_CLIENT;
  }
  if (self.signals != NULL) {
    event_free(self.signals);
    event_free(self.tick);
    close(self.signal_fd);
  }
  buffer_release(&json);
  return code;
}

/* --- options ------------------------------------------------------------------------------------ */

/* NAME takes the value from this environment. Returns 0, or -1 where it has none. */
static int add_variable(struct options *options, const char *text) {
  const char *equals = strchr(text, '=');
  const char *value = equals == NULL ? getenv(text) : equals + 1;
  const size_t length = equals == NULL ? strlen(text) : (size_t)(equals - text);
  if (value == NULL || length == 0)
    return -1;
  char *entry = memory_allocate(length + strlen(value) + 2);
  memcpy(entry, text, length);
  entry[length] = '=';
  memcpy(entry + length + 1, value, strlen(value) + 1);
  options->variables[options->variable_count++] = entry;
  return 0;
}

static int take_option(struct options *options, int flag, const char *value) {
  char *end;
  switch (flag) {
  case 'w':
    options->directory = value;
    return 0;
  case 'e':
    return add_variable(options, value);
  case 't':
    options->timeout = strtoull(value, &end, 10);
    return options->timeout > 0 && *end == '\0' ? 0 : -1;
  case 'i':
    options->input = true;
    return 0;
  case 'c':
    options->script = value;
    return 0;
  case 'D':
    options->detach = true;
    return 0;
  case 'I':
    options->id = value;
    return strlen(value) == STEP_ID_SIZE - 1 ? 0 : -1;
  default:
    return -1;
  }
}

/* Returns 0, or -1 for wrong usage. */
static int read_options(struct options *options, int argc, char **argv) {
  static const struct option flags[] = {
      {"detach", no_argument, NULL, 'D'}, {"id", required_argument, NULL, 'I'}, {NULL, 0, NULL, 0}};
  optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, "+w:e:t:ic:", flags, NULL)) != -1;)
    if (take_option(options, flag, optarg) != 0)
      return -1;
  options->command = argv + optind;
  options->words = argc - optind;
  return (options->script == NULL) == (options->words > 0) ? 0 : -1;
}

static int run(struct program *program, int argc, char **argv) {
  struct options options = {.variables =
                                memory_zeros(((size_t)argc + 1) * sizeof *options.variables)};
  int code = read_options(&options, argc, argv) == 0 ? run_step(program, &options)
                                                     : program_usage(&run_command);
  for (size_t i = 0; i < options.variable_count; i++)
    free(options.variables[i]);
  free(options.variables);
  return code;
}

const struct command run_command = {
    .name = "run",
    .usage =
        "[-w DIR] [-e NAME[=VALUE]]... [-t SECONDS] [-i] [--detach] [--id GUID] -- COMMAND...\n"
        "       sandbox run ... -c SCRIPT",
    .help = "run a command in the queue: its output, and its exit code",
    .run = run,
    .needs_job = true};
