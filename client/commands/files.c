/* read, write, edit, ls, grep, tree: run the file kinds and show their answers. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/redis/json_field.h"
#include "client/steps/transfer.h"
#include "wire/json.h"

/* The most bytes of a writeFile (wire/PROTOCOL.md). */
#define WRITE_FILE_MAX 10485760

/* Options may follow the arguments. */
static int next_option(int argc, char **argv, const char *options) {
  static const struct option none[] = {{NULL, 0, NULL, 0}};
  return getopt_long(argc, argv, options, none, NULL);
}

/* Returns 0, or the exit code if nobody reads the output. */
static int print_bytes(struct program *program, const char *bytes, size_t length) {
  return length == 0 || terminal_put(&program->terminal, false, bytes, length) == 0 ? 0
                                                                                    : 128 + SIGPIPE;
}

static int print_line(struct program *program, const char *text) {
  int code = print_bytes(program, text, strlen(text));
  return code == 0 ? print_bytes(program, "\n", 1) : code;
}

/* Prints outputContent for --json: JSON as it is, other text as a string. */
static int print_json(struct program *program, const struct file_answer *answer, bool is_json) {
  const char *json = is_json && answer->content != NULL ? answer->content : answer->raw;
  json = json != NULL ? json : "null";
  return terminal_put_json(&program->terminal, json, strlen(json)) == 0 ? 0 : 128 + SIGPIPE;
}

/* Runs the step in steps->json. Writes an error message if it fails. */
static int do_step(struct file_steps *steps, struct file_answer *answer, bool needs_content) {
  int code = file_steps_do(steps, answer);
  if (code != 0) {
    file_steps_complain(steps, answer);
  } else if (needs_content && answer->content == NULL && !answer->has_result) {
    file_steps_error(steps, "somebody else took the result of %s", job_shorten(steps->id).text);
    code = EXIT_CLIENT;
  }
  return code;
}

/* --- text ------------------------------------------------------------------------------------- */

/* Shows an answer that is text. Adds a missing line end, unless `is_exact` is set. */
static int show_text(struct file_steps *steps, bool is_exact) {
  struct file_answer answer;
  struct program *program = steps->program;
  int code = do_step(steps, &answer, true);
  if (code == 0 && program->json)
    code = print_json(program, &answer, false);
  else if (code == 0)
    code = print_bytes(program, answer.content, answer.length);
  bool has_end = answer.length > 0 && answer.content[answer.length - 1] == '\n';
  if (code == 0 && !program->json && !is_exact && !has_end)
    code = print_bytes(program, "\n", 1);
  if (code == 0)
    file_steps_show_notes(steps);
  file_answer_release(&answer);
  return code;
}

/* Begins a step whose only field is a path. */
static int ask_path(struct file_steps *steps, const char *kind, const char *path) {
  file_steps_new(steps, kind);
  return file_steps_add(steps, "path", path) ? 0 : EXIT_CLIENT;
}

/* --- read ------------------------------------------------------------------------------------- */

/* Parses FROM or FROM:COUNT. Returns 0, or -1. */
static int read_lines(const char *text, unsigned *from, unsigned *count) {
  char *end;
  unsigned long long first = strtoull(text, &end, 10), number = 0;
  if (*end == ':' && end[1] >= '0' && end[1] <= '9') {
    number = strtoull(end + 1, &end, 10);
    if (number == 0)
      return -1;
  }
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || first == 0 || first > INT32_MAX ||
      number > INT32_MAX)
    return -1;
  *from = (unsigned)first;
  *count = (unsigned)number;
  return 0;
}

/* Prints the pieces of a file for --json; an empty file has one. */
static int read_pieces(struct file_steps *steps, const char *path) {
  struct transfer_in in = {.steps = steps, .path = path};
  struct program *program = steps->program;
  int code;
  do {
    code = transfer_next(&in);
    if (code == 0 && (in.bytes.length > 0 || in.offset == 0))
      code = print_json(program, &in.answer, true);
    if (code == 0 && terminal_flush(&program->terminal) != 0)
      code = 128 + SIGPIPE;
  } while (code == 0 && in.bytes.length > 0);
  transfer_in_release(&in);
  return code;
}

static int read_path(struct file_steps *steps, const char *path, unsigned from, unsigned count) {
  if (from == 0 && file_steps_can(steps, "readBytes"))
    return steps->program->json ? read_pieces(steps, path) : transfer_print(steps, path, false);
  if (ask_path(steps, "readFile", path) != 0)
    return EXIT_CLIENT;
  if (from > 0) {
    step_text_number(&steps->json, "startLine", from);
    if (count > 0)
      step_text_number(&steps->json, "lineCount", count);
    step_text_flag(&steps->json, "withLineNumbers", 1);
  }
  return show_text(steps, from == 0);
}

int read_command(struct program *program, int argc, char **argv) {
  struct file_steps steps;
  unsigned from = 0, count = 0;
  optind = 0;
  for (int flag; (flag = next_option(argc, argv, "l:")) != -1;)
    if (flag != 'l' || read_lines(optarg, &from, &count) != 0)
      return COMMAND_USAGE;
  if (argc - optind != 1 || argv[optind][0] == '\0')
    return COMMAND_USAGE;
  int code = file_steps_begin(&steps, program);
  if (code != 0)
    return code;
  return file_steps_end(&steps, read_path(&steps, argv[optind], from, count));
}

/* --- write ------------------------------------------------------------------------------------ */

/* Reads `size` bytes, or fewer at the end. Returns 0, or the exit code. */
static int read_input(struct file_steps *steps, struct buffer *input, size_t size) {
  ssize_t length = 1;
  input->length = 0;
  while (length > 0 && input->length < size) {
    const int code = exchange_wait_for(&steps->exchange, STDIN_FILENO, POLLIN);
    if (code != 0)
      return code;
    length = read(STDIN_FILENO, buffer_space(input, size - input->length), size - input->length);
    if (length > 0)
      input->length += (size_t)length;
    else if (length < 0 && (errno == EINTR || errno == EAGAIN))
      length = 1;
  }
  if (length >= 0)
    return 0;
  file_steps_error(steps, "cannot read standard input: %s", strerror(errno));
  return EXIT_CLIENT;
}

static int write_pieces(struct file_steps *steps, const char *path) {
  struct transfer_out out;
  struct buffer input = {0};
  transfer_out_begin(&out, steps, path);
  int code;
  do {
    code = read_input(steps, &input, TRANSFER_PIECE);
    if (code == 0)
      code = transfer_put(&out, input.bytes, input.length);
  } while (code == 0 && input.length == TRANSFER_PIECE);
  if (code == 0)
    code = transfer_commit(&out);
  transfer_out_release(&out);
  buffer_release(&input);
  return code;
}

static int write_text(struct file_steps *steps, const char *path) {
  struct buffer input = {0};
  struct file_answer answer = {0};
  int code = read_input(steps, &input, WRITE_FILE_MAX + 1);
  if (code == 0 && (input.length > WRITE_FILE_MAX ||
                    utf8_valid_prefix(input.bytes, input.length) != input.length)) {
    (void)file_steps_require(steps, "writeBytes");
    code = EXIT_CLIENT;
  }
  if (code == 0)
    code = ask_path(steps, "writeFile", path);
  if (code == 0) {
    step_text_bytes(&steps->json, "content", input.length > 0 ? input.bytes : "", input.length);
    code = do_step(steps, &answer, false);
  }
  file_answer_release(&answer);
  buffer_release(&input);
  return code;
}

int write_command(struct program *program, int argc, char **argv) {
  struct file_steps steps;
  optind = 0;
  if (next_option(argc, argv, "") != -1 || argc - optind != 1 || argv[optind][0] == '\0')
    return COMMAND_USAGE;
  const char *path = argv[optind];
  int code = file_steps_begin(&steps, program);
  if (code != 0)
    return code;
  steps.exchange.policy = EXCHANGE_CLEANS_UP;
  code =
      file_steps_can(&steps, "writeBytes") ? write_pieces(&steps, path) : write_text(&steps, path);
  if (code == 0 && program->json)
    (void)puts("null");
  return file_steps_end(&steps, code);
}

/* --- edit ------------------------------------------------------------------------------------- */

static bool add_edit(struct file_steps *steps, const char *old_text, const char *new_text,
                     bool all) {
  const char *const texts[] = {old_text, new_text};
  for (int i = 0; i < 2; i++)
    if (utf8_valid_prefix(texts[i], strlen(texts[i])) != strlen(texts[i])) {
      terminal_error(&steps->program->terminal, "%s is not UTF-8", i == 0 ? "OLD" : "NEW");
      return false;
    }
  buffer_add_string(&steps->json, ",\"edits\":[{\"oldString\":");
  buffer_add_json(&steps->json, old_text, strlen(old_text));
  step_text_string(&steps->json, "newString", new_text);
  step_text_flag(&steps->json, "replaceAll", all);
  buffer_add_string(&steps->json, "}]");
  return true;
}

int edit_command(struct program *program, int argc, char **argv) {
  static const struct option flags[] = {{"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
  struct file_steps steps;
  bool all = false;
  optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1; all = true)
    if (flag != 'a')
      return COMMAND_USAGE;
  if (argc - optind != 3 || argv[optind][0] == '\0')
    return COMMAND_USAGE;
  int code = file_steps_begin(&steps, program);
  if (code != 0)
    return code;
  if (!file_steps_require(&steps, "editFile") || ask_path(&steps, "editFile", argv[optind]) != 0 ||
      !add_edit(&steps, argv[optind + 1], argv[optind + 2], all))
    code = EXIT_CLIENT;
  else
    code = show_text(&steps, false);
  return file_steps_end(&steps, code);
}

/* --- lists ------------------------------------------------------------------------------------ */

typedef int show_list(struct program *program, const cJSON *list);

static int show_answer(struct file_steps *steps, show_list *show, bool *is_empty) {
  struct file_answer answer;
  struct error error;
  int code = do_step(steps, &answer, true);
  cJSON *list = NULL;
  if (code == 0 && answer.content != NULL)
    list = json_tree_parse(answer.content, answer.length, &error);
  if (code == 0 && list == NULL) {
    file_steps_error(steps, "cannot read the answer: a secret in it is masked");
    code = EXIT_CLIENT;
  }
  if (code == 0)
    code = steps->program->json ? print_json(steps->program, &answer, true)
                                : show(steps->program, list);
  *is_empty = list != NULL && list->child == NULL;
  if (code == 0)
    file_steps_show_notes(steps);
  cJSON_Delete(list);
  file_answer_release(&answer);
  return code;
}

/* --- ls --------------------------------------------------------------------------------------- */

static void write_size(const cJSON *entry, char size[24]) {
  const double bytes = json_field_number(entry, "size_bytes", -1);
  (void)snprintf(size, 24, bytes < 0 ? "-" : "%.0f", bytes);
}

static int show_entries(struct program *program, const cJSON *list) {
  int width = 1, code = 0;
  char size[24];
  const cJSON *entry;
  cJSON_ArrayForEach(entry, list) {
    write_size(entry, size);
    width = (int)strlen(size) > width ? (int)strlen(size) : width;
  }
  cJSON_ArrayForEach(entry, list) {
    const char *path = json_field_text(entry, "path"), *slash = strrchr(path, '/');
    struct buffer line = {0};
    write_size(entry, size);
    const bool is_directory = json_field_is_true(entry, "is_directory");
    buffer_add_format(&line, "%-4s  %*s  ", is_directory ? "dir" : "file", width, size);
    buffer_add_string(&line, slash != NULL ? slash + 1 : path);
    buffer_add(&line, is_directory ? "/\n" : "\n", is_directory ? 3 : 2);
    code = code == 0 ? print_bytes(program, line.bytes, line.length - 1) : code;
    buffer_release(&line);
  }
  return code;
}

int ls_command(struct program *program, int argc, char **argv) {
  struct file_steps steps;
  bool is_empty;
  optind = 0;
  if (next_option(argc, argv, "") != -1 || argc - optind > 1)
    return COMMAND_USAGE;
  int code = file_steps_begin(&steps, program);
  if (code != 0)
    return code;
  code = ask_path(&steps, "listFiles", optind < argc ? argv[optind] : ".");
  if (code == 0)
    code = show_answer(&steps, show_entries, &is_empty);
  return file_steps_end(&steps, code);
}

/* --- grep ------------------------------------------------------------------------------------- */

static int show_matches(struct program *program, const cJSON *list) {
  int code = 0;
  const cJSON *match;
  cJSON_ArrayForEach(match, list) {
    struct buffer line = {0};
    buffer_add_string(&line, json_field_text(match, "path"));
    buffer_add_format(&line, ":%.0f:", json_field_number(match, "line", -1));
    buffer_add_string(&line, json_field_text(match, "text"));
    buffer_add(&line, "", 1);
    code = code == 0 ? print_line(program, line.bytes) : code;
    buffer_release(&line);
  }
  return code;
}

static bool ask_matches(struct file_steps *steps, const char *pattern, const char *path,
                        const char *glob, bool ignores_case) {
  struct buffer text = {0};
  buffer_add_string(&text, ignores_case ? "(?i)" : "");
  buffer_add(&text, pattern, strlen(pattern) + 1);
  bool is_text = ask_path(steps, "grep", path) == 0 &&
                 file_steps_add(steps, "pattern", text.bytes) &&
                 (glob == NULL || file_steps_add(steps, "glob", glob));
  step_text_flag(&steps->json, "prefixPaths", 1);
  buffer_release(&text);
  return is_text;
}

/* Exits with 1 if nothing matches, like grep(1). */
int grep_command(struct program *program, int argc, char **argv) {
  struct file_steps steps;
  const char *glob = NULL;
  bool ignores_case = false, is_empty;
  optind = 0;
  for (int flag; (flag = next_option(argc, argv, "g:i")) != -1;) {
    if (flag == '?')
      return COMMAND_USAGE;
    glob = flag == 'g' ? optarg : glob;
    ignores_case |= flag == 'i';
  }
  if (argc - optind < 1 || argc - optind > 2 || argv[optind][0] == '\0')
    return COMMAND_USAGE;
  int code = file_steps_begin(&steps, program);
  if (code != 0)
    return code;
  const char *path = argc - optind == 2 ? argv[optind + 1] : ".";
  code = EXIT_CLIENT;
  if (ask_matches(&steps, argv[optind], path, glob, ignores_case)) {
    code = show_answer(&steps, show_matches, &is_empty);
    code = code == 0 && is_empty ? EXIT_FOUND : code;
  }
  return file_steps_end(&steps, code);
}

/* --- tree ------------------------------------------------------------------------------------- */

int tree_command(struct program *program, int argc, char **argv) {
  struct file_steps steps;
  optind = 0;
  if (next_option(argc, argv, "") != -1 || argc - optind > 1)
    return COMMAND_USAGE;
  int code = file_steps_begin(&steps, program);
  if (code != 0)
    return code;
  code = ask_path(&steps, "directoryTree", optind < argc ? argv[optind] : ".");
  if (code == 0)
    code = show_text(&steps, false);
  return file_steps_end(&steps, code);
}
