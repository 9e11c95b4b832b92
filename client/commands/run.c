/* A command in the queue: its events as they come, and how it has ended. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/program.h"
#include "client/steps/exchange.h"
#include "client/steps/outcome.h"
#include "client/steps/step_text.h"

/* What is read from standard input, and a whole step, at the most (wire/PROTOCOL.md). */
#define INPUT_MAX ((size_t)16 * 1024 * 1024)
#define STEP_MAX ((size_t)64 * 1024 * 1024)

struct run_options {
  const char *directory, *script, *id;
  char **variables; /* NAME=value */
  size_t variable_count;
  unsigned long long timeout;
  bool input, detach;
  char **command;
  int words;
};

struct run_step {
  struct program *program;
  const struct run_options *options;
  char id[STEP_ID_SIZE];
  bool is_unread;
};

/* --- events ----------------------------------------------------------------------------------- */

static void show_line(struct run_step *self, const struct event_view *view) {
  struct terminal *terminal = &self->program->terminal;
  bool to_stderr = view->kind == STEP_EVENT_STDERR;
  if (terminal_put(terminal, to_stderr, view->line, view->line_length) != 0 ||
      (!view->partial && terminal_put(terminal, to_stderr, "\n", 1) != 0))
    self->is_unread = true;
}

static void show_event(void *owner, const char *json, size_t length, const struct event_view *view,
                       uint64_t missed) {
  struct run_step *self = owner;
  if (self->program->json) {
    self->is_unread |= terminal_put_json(&self->program->terminal, json, length) != 0;
    return;
  }
  if (missed > 0)
    terminal_say(&self->program->terminal, COLOR_YELLOW, "… %llu lines were trimmed …",
                 (unsigned long long)missed);
  if (view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR)
    show_line(self, view);
}

static bool flush_events(void *owner) {
  struct run_step *self = owner;
  return terminal_flush(&self->program->terminal) == 0 && !self->is_unread;
}

static const struct exchange_handler handler = {.event = show_event, .turn = flush_events};

/* --- the end ---------------------------------------------------------------------------------- */

static void print_result(struct terminal *terminal, const char *result) {
  struct buffer json = {0};
  buffer_add_string(&json, "{\"result\":");
  buffer_add_string(&json, result != NULL ? result : "null");
  buffer_add_string(&json, "}");
  (void)terminal_put_json(terminal, json.bytes, json.length);
  buffer_release(&json);
}

static int tell_end(struct run_step *self, struct exchange_answer *answer) {
  struct program *program = self->program;
  struct outcome outcome =
      outcome_make(answer->result, answer->exit_code, answer->timed_out, answer->was_cancelled);
  if (program->json) {
    print_result(&program->terminal, answer->result);
  } else if (outcome.code == EXIT_CLIENT || outcome.code == EXIT_NOT_FOUND ||
             outcome.code == EXIT_NOT_EXECUTABLE) {
    if (outcome.is_known)
      terminal_error(&program->terminal, "%s", outcome.what);
  }
  outcome_say(program, job_shorten(self->id).text, &outcome);
  free(answer->result);
  if (!answer->is_unread)
    return outcome.code;
  if (terminal_reader_is_gone())
    return 128 + SIGPIPE;
  terminal_error(&program->terminal, "standard output: it could not be written to");
  return EXIT_CLIENT;
}

/* --- the step --------------------------------------------------------------------------------- */

static int read_input(struct exchange *exchange, struct buffer *input, struct error *error) {
  ssize_t length = -1;
  do {
    if (!exchange_wait_for(exchange, STDIN_FILENO, POLLIN))
      return error_set(error, "interrupted");
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

static int make_step(const struct run_options *options, const char *id, struct exchange *exchange,
                     struct buffer *json, struct error *error) {
  static char dash_c[] = "-c";
  struct buffer input = {0};
  int result = options->input ? read_input(exchange, &input, error) : 0;
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

static int check_stdin(struct program *program, struct error *error) {
  struct job_agent agent;
  if (job_read_agent(program, program->keys.heartbeat, &agent, error) != 0)
    return -1;
  bool can = job_agent_can(&agent, "stdin");
  job_agent_release(&agent);
  return can ? 0 : error_set(error, "-i needs an agent with stdin");
}

/* Without one the step would wait for an agent that may never come. */
static int check_agent(struct program *program, const struct run_options *options,
                       struct error *error) {
  struct job_steps steps;
  bool is_alive;
  if (job_await_agent(program, &is_alive, error) != 0)
    return -1;
  if (is_alive)
    return options->input ? check_stdin(program, error) : 0;
  if (job_read_steps(program, &steps, error) != 0)
    return -1;
  const size_t waiting = steps.count;
  job_steps_release(&steps);
  return error_set(error,
                   "no agent for %.60s: no heartbeat, and %zu step%s; --detach pushes all the same",
                   program->job, waiting, waiting == 1 ? " waits" : "s wait");
}

static int push_and_leave(struct run_step *self, struct exchange *exchange, const char *json) {
  struct error error;
  if (job_push(self->program, self->id, json, &error) == 0) {
    (void)printf("%s\n", self->id);
    return 0;
  }
  terminal_error(&self->program->terminal, "%s", error.text);
  return exchange_is_interrupted(exchange) ? 128 + exchange->first_signal : EXIT_CLIENT;
}

static int push_and_wait(struct run_step *self, struct exchange *exchange, const char *json) {
  struct exchange_answer answer;
  int code = exchange_step(exchange, self->id, json, &answer);
  return code < 0 ? tell_end(self, &answer) : code;
}

static int execution_step(struct program *program, const struct run_options *options) {
  struct run_step self = {.program = program, .options = options};
  struct exchange exchange;
  struct buffer json = {0};
  struct error error;
  if (options->id != NULL)
    (void)snprintf(self.id, sizeof self.id, "%s", options->id);
  else
    step_id_make(self.id);
  exchange_begin(&exchange, program, &handler, &self);
  int code = -1;
  if ((options->detach || check_agent(program, options, &error) == 0) &&
      make_step(options, self.id, &exchange, &json, &error) == 0)
    code = options->detach ? push_and_leave(&self, &exchange, json.bytes)
                           : push_and_wait(&self, &exchange, json.bytes);
  if (code < 0 && exchange_is_interrupted(&exchange)) {
    code = 128 + exchange.first_signal;
  } else if (code < 0) {
    terminal_error(&program->terminal, "%s", error.text);
    code = EXIT_CLIENT;
  }
  exchange_end(&exchange);
  buffer_release(&json);
  return code;
}

/* --- options ---------------------------------------------------------------------------------- */

/* NAME takes the value from this environment. Returns 0, or -1 where it has none. */
static int add_variable(struct run_options *options, const char *text) {
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

static int take_option(struct run_options *options, int flag, const char *value) {
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
static int read_options(struct run_options *options, int argc, char **argv) {
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
  struct run_options options = {.variables =
                                    memory_zeros(((size_t)argc + 1) * sizeof *options.variables)};
  int code = read_options(&options, argc, argv) == 0 ? execution_step(program, &options)
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
    .needs_job = true,
    .before = "wetc"};
