/* run: runs a command in the queue, shows its output, and exits with its code. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/options.h"
#include "client/redis/json_field.h"
#include "client/screen/figure.h"
#include "client/steps/exchange.h"
#include "client/steps/outcome.h"
#include "client/steps/raw_text.h"
#include "client/steps/run_policy.h"

/* The most bytes of standard input, and of a step (wire/PROTOCOL.md). */
#define INPUT_MAX ((size_t)16 * 1024 * 1024)
#define STEP_MAX ((size_t)64 * 1024 * 1024)

/* The longest deadline: a year. */
#define TIMEOUT_MAX 31536000

struct run_step {
  struct program *program;
  char id[STEP_ID_SIZE];
  const char *directory;
  char *absolute;         /* the directory, if it was relative */
  const char **variables; /* NAME=value, or NAME */
  size_t variable_count;
  unsigned long long timeout;
  bool input, detach;
  struct run_policy policy;
  enum {
    FORM_CHOSEN, /* raw unless both streams are terminals */
    FORM_TEXT,
    FORM_RAW
  } form;                 /* of the output */
  struct raw_text raw[2]; /* of standard output and standard error */
  const char *script[4];  /* "sh", "-c", and the script of -c, or NULL */
  const char *const *command;
  bool is_unread; /* its output cannot be written */
};

/* --- events ----------------------------------------------------------------------------------- */

/* Shows raw output on a terminal. Without a view, shows the end of it. */
static int put_raw_on_terminal(struct run_step *self, bool to_stderr,
                               const struct event_view *view) {
  struct buffer text = {0};
  if (view != NULL)
    raw_text_add(&self->raw[to_stderr], view->line, view->line_length, &text);
  else
    raw_text_end(&self->raw[to_stderr], &text);
  const int result =
      text.length > 0 ? terminal_put(&self->program->terminal, to_stderr, text.bytes, text.length)
                      : 0;
  buffer_release(&text);
  return result;
}

static int put_output(struct run_step *self, const struct event_view *view) {
  struct terminal *terminal = &self->program->terminal;
  const bool to_stderr = view->kind == STEP_EVENT_STDERR;
  if (view->is_raw && terminal->is_tty[to_stderr])
    return put_raw_on_terminal(self, to_stderr, view);
  int result = terminal_put(terminal, to_stderr, view->line, view->line_length);
  return view->partial ? result : terminal_put(terminal, to_stderr, "\n", 1);
}

static void on_event(void *owner, const struct event_view *view, uint64_t missed) {
  struct run_step *self = owner;
  (void)missed; /* said at the end */
  struct terminal *terminal = &self->program->terminal;
  run_policy_see(&self->policy, view);
  if (self->program->json) {
    self->is_unread |= terminal_put_json(terminal, view->json, view->length) != 0;
    return;
  }
  if (view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR)
    self->is_unread |= put_output(self, view) != 0;
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

/* Returns the exit code of a step whose output was written. */
static int check_missed(const struct run_step *self, const struct exchange *exchange) {
  const uint64_t missed = exchange->missed;
  if (missed == 0)
    return exchange->outcome.code;
  if (self->program->access->missed_cause == NULL)
    terminal_error(&self->program->terminal, "%llu line%s missing", (unsigned long long)missed,
                   missed == 1 ? " is" : "s are");
  else
    terminal_error(&self->program->terminal, "%s event%s missing: %s before %s could be read",
                   figure_count((int64_t)missed).text, missed == 1 ? " is" : "s are",
                   self->program->access->missed_cause, missed == 1 ? "it" : "they");
  return EXIT_CLIENT;
}

/* Whether the reader has missed something. One that is gone after it has read everything has not,
   unless the step was cancelled because of it. */
static bool is_output_lost(const struct run_step *self, const struct exchange *exchange) {
  const struct terminal_stream *streams = self->program->terminal.streams;
  return exchange->watch.output == WATCH_OUTPUT_LOST &&
         (self->is_unread || exchange->has_discarded || exchange->outcome.was_ended ||
          streams[0].failure != 0 || streams[1].failure != 0);
}

static int finish(struct run_step *self, struct exchange *exchange) {
  struct program *program = self->program;
  const struct outcome outcome = exchange->outcome;
  for (int to_stderr = 0; to_stderr < 2; to_stderr++)
    (void)put_raw_on_terminal(self, to_stderr, NULL);
  if (program->json)
    print_result(&program->terminal, exchange->result);
  else if (outcome.has_result && (outcome.code == EXIT_CLIENT || outcome.code == EXIT_NOT_FOUND ||
                                  outcome.code == EXIT_NOT_EXECUTABLE))
    terminal_error(&program->terminal, "%s", outcome.text);
  const int flushed = exchange_flush(exchange);
  const bool is_lost = is_output_lost(self, exchange);
  if (!is_lost || exchange->first_signal != 0)
    outcome_say(program, job_shorten(self->id).text, &outcome);
  const bool is_obeyed = run_policy_report(&self->policy, program, exchange->result);
  if (flushed == 0 && !is_lost)
    return is_obeyed ? check_missed(self, exchange) : EXIT_CLIENT;
  return 128 + (exchange->first_signal != 0 ? exchange->first_signal : SIGPIPE);
}

/* --- the step --------------------------------------------------------------------------------- */

static int read_input(struct exchange *exchange, struct buffer *input, struct error *error) {
  const int code = exchange_read_input(exchange, input, INPUT_MAX + 1, error);
  if (code != 0)
    return code > 0 ? error_set(error, "interrupted") : -1;
  if (input->length > INPUT_MAX)
    return error_set(error, "standard input has more than %zu bytes: copy it with sandbox cp",
                     INPUT_MAX);
  if (input->length > 0 && utf8_valid_prefix(input->bytes, input->length) != input->length)
    return error_set(error, "standard input is not UTF-8: copy it with sandbox cp");
  return 0;
}

/* Returns the value of NAME=value, or of NAME in the environment; NULL: there is none. */
static const char *value_of(const char *variable) {
  const char *equals = strchr(variable, '=');
  return equals != NULL ? equals + 1 : getenv(variable);
}

/* Of several variables with the same name, the last one counts. */
static bool is_overridden(const struct run_step *self, size_t at) {
  const size_t length = strcspn(self->variables[at], "=");
  for (size_t i = at + 1; i < self->variable_count; i++)
    if (strcspn(self->variables[i], "=") == length &&
        strncmp(self->variables[i], self->variables[at], length) == 0)
      return true;
  return false;
}

static void add_variables(const struct run_step *self, struct buffer *json) {
  bool is_first = true;
  buffer_add_string(json, ",\"env\":{");
  for (size_t i = 0; i < self->variable_count; i++) {
    const char *text = self->variables[i], *value = value_of(text);
    if (value == NULL || is_overridden(self, i))
      continue;
    buffer_add_string(json, is_first ? "" : ",");
    buffer_add_json(json, text, strcspn(text, "="));
    buffer_add_string(json, ":");
    buffer_add_json(json, value, strlen(value));
    is_first = false;
  }
  buffer_add_string(json, "}");
}

static bool is_raw(const struct run_step *self) {
  const struct program *program = self->program;
  const bool is_shown = program->terminal.is_tty[0] && program->terminal.is_tty[1];
  return self->form == FORM_RAW ||
         (self->form == FORM_CHOSEN && !is_shown && !program->json && !self->detach);
}

static int make_step(const struct run_step *self, struct exchange *exchange, struct buffer *json,
                     struct error *error) {
  struct buffer input = {0};
  int result = self->input ? read_input(exchange, &input, error) : 0;
  step_text_begin(json, self->id, "run");
  step_text_string(json, "command", self->command[0]);
  step_text_strings(json, "args", self->command + 1);
  if (self->directory != NULL)
    step_text_string(json, "workingDirectory", self->directory);
  if (self->timeout > 0)
    step_text_number(json, "timeoutSeconds", self->timeout);
  if (self->variable_count > 0)
    add_variables(self, json);
  run_policy_add(&self->policy, json);
  if (!self->detach)
    step_text_flag(json, "flowControl", true);
  if (is_raw(self))
    step_text_flag(json, "raw", true);
  if (self->input)
    step_text_bytes(json, "stdin", input.length > 0 ? input.bytes : "", input.length);
  step_text_end(json);
  buffer_release(&input);
  if (result == 0 && json->length > STEP_MAX)
    result =
        error_set(error, "the step has %zu bytes, more than %zu: copy the data with sandbox cp",
                  json->length, STEP_MAX);
  return result;
}

static bool is_relative(const char *path) {
  return path != NULL && path[0] != '/';
}

/* In the other commands, a relative path begins at the directory in which steps start, but an agent
   takes the step's directory from its own current directory. So -w becomes absolute here. An agent
   of version 0.2 does not say where steps start, and the path stays relative. */
static int make_absolute(struct run_step *self, const struct job_agent *agent,
                         struct error *error) {
  const char *start =
      cJSON_GetStringValue(cJSON_GetObjectItem(agent->heartbeat, "WorkingDirectory"));
  if (!is_relative(self->directory))
    return 0;
  if (!agent->is_alive && self->detach)
    return error_set(error,
                     "-w %.200s is relative, and without a heartbeat it is unknown where steps "
                     "start: give an absolute path",
                     self->directory);
  if (start != NULL)
    self->directory = self->absolute = memory_format("%s/%s", start, self->directory);
  return 0;
}

/* An old agent ignores what it does not know: input is lost, and output is sent as text. */
static int check_features(const struct run_step *self, const struct job_agent *agent,
                          struct error *error) {
  if (self->input && !job_agent_can(agent, "stdin"))
    return error_set(error, "-i needs an agent with stdin");
  if (!is_raw(self) || job_agent_can(agent, "raw"))
    return 0;
  if (self->form == FORM_RAW)
    return error_set(error, "--raw needs an agent with raw");
  terminal_say(
      &self->program->terminal, COLOR_YELLOW,
      "this agent cannot send raw bytes: bytes that are not UTF-8 are replaced; use --text "
      "to accept that");
  return 0;
}

/* Without an agent, the step might wait forever. */
static int check_agent(struct run_step *self, struct exchange *exchange, struct error *error) {
  struct program *program = self->program;
  struct job_agent agent;
  struct job_steps steps;
  size_t waiting = 0;
  if (self->detach && !is_relative(self->directory) && !run_policy_is_set(&self->policy))
    return 0;
  if (job_await_agent(program, &agent, error) != 0)
    return -1;
  const bool is_alive = agent.is_alive;
  exchange->acknowledges = job_agent_can(&agent, "flowControl");
  int result = make_absolute(self, &agent, error);
  if (result == 0 && is_alive && !self->detach)
    result = check_features(self, &agent, error);
  if (result == 0 && (is_alive || self->detach))
    result = run_policy_check(&self->policy, &agent, error);
  job_agent_release(&agent);
  if (result != 0 || is_alive || self->detach)
    return result;
  if (program->access->read_steps(program, &steps, error) != 0)
    return -1;
  for (size_t i = 0; i < steps.count; i++)
    waiting += !steps.list[i].is_taken;
  job_steps_release(&steps);
  return error_set(error, "no agent for %.60s: no heartbeat, and %zu step%s%s", program->job,
                   waiting, waiting == 1 ? " waits" : "s wait",
                   run_policy_is_set(&self->policy) ? "" : "; --detach pushes it anyway");
}

/* Returns -1 with the error. */
static int push_and_wait(struct run_step *self, struct exchange *exchange, const char *json,
                         struct error *error) {
  if (self->detach) {
    if (self->program->access->push(self->program, NULL, self->id, json, error) != 0)
      return -1;
    (void)terminal_put(&self->program->terminal, false, self->id, strlen(self->id));
    (void)terminal_put(&self->program->terminal, false, "\n", 1);
    return 0;
  }
  int code = exchange_step(exchange, self->id, json);
  return code < 0 ? finish(self, exchange) : code;
}

static int run_in_queue(struct run_step *self) {
  struct exchange exchange;
  struct buffer json = {0};
  struct error error;
  exchange_begin(&exchange, self->program, &handler, self);
  int code = -1;
  if (check_agent(self, &exchange, &error) == 0 && make_step(self, &exchange, &json, &error) == 0)
    code = push_and_wait(self, &exchange, json.bytes, &error);
  if (code < 0) {
    const int signal_code = exchange_check_signals(&exchange);
    if (signal_code == 0 || (self->detach && json.length > 0))
      code = terminal_fail(&self->program->terminal, &error);
    code = signal_code != 0 ? signal_code : code;
  }
  exchange_end(&exchange);
  buffer_release(&json);
  return code;
}

/* --- texts ------------------------------------------------------------------------------------ */

/* JSON would change other bytes. */
static bool is_text(const char *text) {
  return utf8_valid_prefix(text, strlen(text)) == strlen(text);
}

/* Values of variables may be secret. */
static int check_variables(const struct run_step *self, struct error *error) {
  for (size_t i = 0; i < self->variable_count; i++) {
    const char *text = self->variables[i], *value = value_of(text);
    if (!is_text(text) || (value != NULL && !is_text(value)))
      return error_set(error, "-e %.*s is not UTF-8", (int)strcspn(text, "="), text);
  }
  return 0;
}

static int check_texts(const struct run_step *self, struct error *error) {
  const bool is_script = self->command == self->script;
  if (self->directory != NULL && !is_text(self->directory))
    return error_set(error, "-w is not UTF-8: %s", self->directory);
  if (!is_script && !is_text(self->command[0]))
    return error_set(error, "the command is not UTF-8: %s", self->command[0]);
  for (size_t i = 1; self->command[i] != NULL; i++)
    if (!is_text(self->command[i]))
      return is_script ? error_set(error, "-c is not UTF-8: %s", self->command[i])
                       : error_set(error, "argument %zu is not UTF-8: %s", i, self->command[i]);
  return check_variables(self, error);
}

/* --- options ---------------------------------------------------------------------------------- */

/* 90, 90s, 5m or 2h. Returns 0 for another text. */
static unsigned long long parse_seconds(const char *text) {
  char *end;
  const unsigned long long number = strtoull(text, &end, 10);
  const unsigned factor = *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;
  const bool has_unit = *end == 's' || *end == 'm' || *end == 'h';
  const bool is_valid = text[0] >= '0' && text[0] <= '9' && end[has_unit] == '\0';
  return is_valid && number <= TIMEOUT_MAX / factor ? number * factor : 0;
}

static bool set_id(struct run_step *self, const char *value) {
  static const char form[] = "00000000-0000-0000-0000-000000000000";
  bool is_guid = strlen(value) == STEP_ID_SIZE - 1;
  for (size_t i = 0; is_guid && form[i] != '\0'; i++)
    is_guid = form[i] == '-' ? value[i] == '-' : isxdigit((unsigned char)value[i]) != 0;
  if (!is_guid)
    return options_fail(self->program, "--id: not a GUID: '%.60s'", value);
  memcpy(self->id, value, STEP_ID_SIZE);
  return true;
}

static bool add_variable(struct run_step *self, const char *text) {
  if (text[0] == '\0' || text[0] == '=')
    return options_fail(self->program, "-e: no name before the '=': '%.60s'", text);
  self->variables[self->variable_count++] = text;
  return true;
}

static bool set_option(struct run_step *self, int flag, const char *value) {
  if (flag == 'e')
    return add_variable(self, value);
  if (flag == 'I')
    return set_id(self, value);
  if (flag == 't' && (self->timeout = parse_seconds(value)) == 0)
    return options_fail(self->program, "-t: not a time such as 30, 30s, 5m or 2h: '%.60s'", value);
  if (flag == 'w')
    self->directory = value;
  if (flag == 'c')
    self->script[2] = value;
  if (flag == 'R' || flag == 'T')
    self->form = flag == 'R' ? FORM_RAW : FORM_TEXT;
  if (flag == 'F')
    self->policy.fence_option = value;
  if (flag == 'L')
    self->policy.limits_option = value;
  self->policy.read_only |= flag == 'O';
  self->policy.no_network |= flag == 'N';
  self->input |= flag == 'i';
  self->detach |= flag == 'D';
  return true;
}

/* Returns false after wrong usage. */
static bool read_options(struct run_step *self, int argc, char **argv) {
  static const struct option flags[] = {
      {"detach", no_argument, NULL, 'D'},        {"id", required_argument, NULL, 'I'},
      {"timeout", required_argument, NULL, 't'}, {"env", required_argument, NULL, 'e'},
      {"workdir", required_argument, NULL, 'w'}, {"raw", no_argument, NULL, 'R'},
      {"text", no_argument, NULL, 'T'},          {"fence", required_argument, NULL, 'F'},
      {"read-only", no_argument, NULL, 'O'},     {"no-network", no_argument, NULL, 'N'},
      {"limits", required_argument, NULL, 'L'},  {NULL, 0, NULL, 0}};
  struct error error;
  int flag;
  optind = 0;
  while ((flag = options_next(self->program, argc, argv, "+w:e:t:ic:", flags)) >= 0)
    if (!set_option(self, flag, optarg))
      return false;
  if (flag == OPTIONS_STOP)
    return false;
  if (run_policy_read(&self->policy, &error) != 0)
    return options_fail(self->program, "%s", error.text);
  const bool is_script = self->script[2] != NULL;
  self->command = is_script ? self->script : (const char *const *)argv + optind;
  if (!is_script && optind == argc)
    return options_fail(self->program, "a command or -c SCRIPT is missing");
  return !is_script || optind == argc ||
         options_fail(self->program, "-c takes no command: '%.60s'", argv[optind]);
}

static int begin_and_run(struct run_step *self) {
  struct error error;
  if (check_texts(self, &error) != 0)
    return terminal_fail(&self->program->terminal, &error);
  const int code = program_begin_job(self->program);
  return code == 0 ? run_in_queue(self) : code;
}

int run_command(struct program *program, int argc, char **argv) {
  struct run_step self = {.program = program, .script = {"sh", "-c"}};
  self.variables = memory_allocate((size_t)argc * sizeof *self.variables);
  step_id_make(self.id);
  const int code = read_options(&self, argc, argv) ? begin_and_run(&self) : COMMAND_USAGE;
  run_policy_release(&self.policy);
  free(self.variables);
  free(self.absolute);
  return code;
}
