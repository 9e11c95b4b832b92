/* run: runs a command in the queue, shows its output, and exits with its code. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/steps/exchange.h"
#include "client/steps/outcome.h"

/* The most bytes of standard input, and of a step (wire/PROTOCOL.md). */
#define INPUT_MAX ((size_t)16 * 1024 * 1024)
#define STEP_MAX ((size_t)64 * 1024 * 1024)

struct run_options {
  const char *directory, *id;
  char *script[3];  /* "sh", "-c", and the script of -c, or NULL */
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
  bool is_unread; /* its output cannot be written */
};

/* --- events ----------------------------------------------------------------------------------- */

static void on_event(void *owner, const struct event_view *view, uint64_t missed) {
  struct run_step *self = owner;
  struct terminal *terminal = &self->program->terminal;
  const bool to_stderr = view->kind == STEP_EVENT_STDERR;
  if (self->program->json) {
    self->is_unread |= terminal_put_json(terminal, view->json, view->length) != 0;
    return;
  }
  if (missed > 0)
    terminal_say(terminal, COLOR_YELLOW, "… %llu lines were trimmed …", (unsigned long long)missed);
  if (view->kind != STEP_EVENT_STDOUT && view->kind != STEP_EVENT_STDERR)
    return;
  if (terminal_put(terminal, to_stderr, view->line, view->line_length) != 0 ||
      (!view->partial && terminal_put(terminal, to_stderr, "\n", 1) != 0))
    self->is_unread = true;
}

static bool on_turn(void *owner) {
  struct run_step *self = owner;
  return terminal_flush(&self->program->terminal) == 0 && !self->is_unread;
}

static const struct exchange_handler handler = {.event = on_event, .turn = on_turn};

/* --- the end ---------------------------------------------------------------------------------- */

static void print_result(struct terminal *terminal, const char *result) {
  struct buffer json = {0};
  buffer_add_string(&json, "{\"result\":");
  buffer_add_string(&json, result != NULL ? result : "null");
  buffer_add_string(&json, "}");
  (void)terminal_put_json(terminal, json.bytes, json.length);
  buffer_release(&json);
}

static int finish(struct run_step *self, struct exchange_answer *answer) {
  struct program *program = self->program;
  const struct outcome outcome = answer->outcome;
  if (program->json)
    print_result(&program->terminal, answer->result);
  else if (outcome.has_result && (outcome.code == EXIT_CLIENT || outcome.code == EXIT_NOT_FOUND ||
                                  outcome.code == EXIT_NOT_EXECUTABLE))
    terminal_error(&program->terminal, "%s", outcome.text);
  outcome_say(program, job_shorten(self->id).text, &outcome);
  free(answer->result);
  if (!answer->is_unread)
    return outcome.code;
  if (terminal_reader_is_gone())
    return 128 + SIGPIPE;
  terminal_error(&program->terminal, "cannot write to standard output");
  return EXIT_CLIENT;
}

/* --- the step --------------------------------------------------------------------------------- */

static int read_input(struct exchange *exchange, struct buffer *input, struct error *error) {
  if (exchange_read_input(exchange, input, INPUT_MAX + 1, error) != 0)
    return -1;
  if (input->length > INPUT_MAX)
    return error_set(error, "standard input has more than %zu bytes: use cp", INPUT_MAX);
  if (input->length > 0 && utf8_valid_prefix(input->bytes, input->length) != input->length)
    return error_set(error, "standard input is not UTF-8: use cp");
  return 0;
}

static int make_step(const struct run_options *options, const char *id, struct exchange *exchange,
                     struct buffer *json, struct error *error) {
  struct buffer input = {0};
  int result = options->input ? read_input(exchange, &input, error) : 0;
  step_text_begin(json, id, "run");
  step_text_string(json, "command", options->command[0]);
  step_text_strings(json, "args", options->command + 1, (size_t)options->words - 1);
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
    result =
        error_set(error, "the step has %zu bytes, more than %zu: use cp", json->length, STEP_MAX);
  return result;
}

/* Without an agent, the step might wait forever. */
static int check_agent(struct program *program, const struct run_options *options,
                       struct error *error) {
  struct job_agent agent;
  struct job_steps steps;
  if (job_await_agent(program, &agent, error) != 0)
    return -1;
  const bool is_alive = agent.is_alive, has_stdin = job_agent_can(&agent, "stdin");
  job_agent_release(&agent);
  if (is_alive)
    return has_stdin || !options->input ? 0 : error_set(error, "-i needs an agent with stdin");
  if (job_read_steps(program, &steps, error) != 0)
    return -1;
  const size_t waiting = steps.count;
  job_steps_release(&steps);
  return error_set(error,
                   "no agent for %.60s: no heartbeat, and %zu step%s; --detach pushes it anyway",
                   program->job, waiting, waiting == 1 ? " waits" : "s wait");
}

/* Returns -1 with the error. */
static int push_and_wait(struct run_step *self, struct exchange *exchange, const char *json,
                         struct error *error) {
  struct exchange_answer answer;
  if (self->options->detach) {
    if (job_push(self->program, self->id, json, error) != 0)
      return -1;
    (void)printf("%s\n", self->id);
    return 0;
  }
  int code = exchange_step(exchange, self->id, json, &answer);
  return code < 0 ? finish(self, &answer) : code;
}

static int run_in_queue(struct program *program, const struct run_options *options) {
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
    code = push_and_wait(&self, &exchange, json.bytes, &error);
  if (code < 0) {
    const int signal_code = exchange_check_signals(&exchange);
    if (signal_code == 0 || (options->detach && json.length > 0))
      code = terminal_fail(&program->terminal, &error);
    code = signal_code != 0 ? signal_code : code;
  }
  exchange_end(&exchange);
  buffer_release(&json);
  return code;
}

/* --- options ---------------------------------------------------------------------------------- */

/* NAME takes its value from the environment. Returns -1 if it has none. */
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

static int set_option(struct run_options *options, int flag, char *value) {
  char *end = NULL;
  if (flag == 'w')
    options->directory = value;
  else if (flag == 'c')
    options->script[2] = value;
  else if (flag == 'i')
    options->input = true;
  else if (flag == 'D')
    options->detach = true;
  else if (flag == 'I')
    options->id = strlen(value) == STEP_ID_SIZE - 1 ? value : NULL;
  else if (flag == 't')
    options->timeout = strtoull(value, &end, 10);
  else
    return flag == 'e' ? add_variable(options, value) : -1;
  return (flag == 't' && (options->timeout == 0 || *end != '\0')) ||
                 (flag == 'I' && options->id == NULL)
             ? -1
             : 0;
}

/* Returns 0, or -1 for wrong usage. */
static int read_options(struct run_options *options, int argc, char **argv) {
  static const struct option flags[] = {
      {"detach", no_argument, NULL, 'D'}, {"id", required_argument, NULL, 'I'}, {NULL, 0, NULL, 0}};
  optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, "+w:e:t:ic:", flags, NULL)) != -1;)
    if (set_option(options, flag, optarg) != 0)
      return -1;
  const bool is_script = options->script[2] != NULL;
  options->command = is_script ? options->script : argv + optind;
  options->words = is_script ? 3 : argc - optind;
  return is_script == (optind == argc) ? 0 : -1;
}

int run_command(struct program *program, int argc, char **argv) {
  static char sh[] = "sh", dash_c[] = "-c";
  struct run_options options = {.script = {sh, dash_c},
                                .variables =
                                    memory_zeros(((size_t)argc + 1) * sizeof *options.variables)};
  int code =
      read_options(&options, argc, argv) == 0 ? run_in_queue(program, &options) : COMMAND_USAGE;
  for (size_t i = 0; i < options.variable_count; i++)
    free(options.variables[i]);
  free(options.variables);
  return code;
}
