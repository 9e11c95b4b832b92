/* The output of a command as the server of October shows it to its model. The last line, the
   verdict, is always included, regardless of the output before it. */

#include "tests/support/october_server.h"
#include "tests/test.h"

TEST_OVERLAP(8)

#define VERDICT "VERDICT"

static const char *const characters[] = {"a", "é", "✓", "😀"};

/* --- around the bound ------------------------------------------------------------------------- */

enum { LINE_UNITS = 997, AROUND = 9, OUTPUT_MAX = 4200000 };

/* One line of this many units, including its newline; the last character is ASCII if the others do
   not fit. */
static char *fill_line(char *out, const char *character, long long units) {
  size_t length = strlen(character);
  long long width = october_units(character, length), left = units - 1;
  for (; left >= width; left -= width, out += length)
    memcpy(out, character, length);
  return stpcpy(out, left > 0 ? "x\n" : "\n");
}

/* This many units in lines of this length. */
static char *fill(char *out, const char *character, long long units, long long line_units) {
  const char *line = out;
  size_t length = 0;
  for (; units >= line_units; units -= line_units)
    if (length == 0)
      length = (size_t)((out = fill_line(out, character, line_units)) - line);
    else
      out = (char *)memcpy(out, line, length) + length;
  return units > 0 ? fill_line(out, character, units) : out;
}

/* Runs `cat` of this text. */
static const struct october_answer *print(struct october_server *server, const char *text) {
  struct job *job = server->job;
  const char *const args[] = {job_write(job, "output", text, 0644), NULL};
  const struct october_answer *answer =
      october_run(server, &(struct october_step){.command = "cat", .args = args});
  assert_int_equal(unlink(args[0]), 0);
  return answer;
}

/* The body is the output, or its first lines. The server takes a shorter body as complete. Of a
   longer one it shows the end as far as events have it, or says that the end is unknown: that is
   the case if only the last line crosses the bound and the body is complete. A line that comes in
   pieces (`by_lines` is false) has more ends in the events. */
static void expect_verdict(struct october_server *server, const struct october_answer *answer,
                           const char *printed, bool by_lines) {
  const char *body = answer->output_content;
  size_t length = strlen(body);
  long long units = october_units(body, length);
  bool is_cut = length < strlen(printed);
  if (strncmp(printed, body, length) != 0 || (by_lines && body[length - 1] != '\n'))
    job_fail(server->job, "outputContent is not what was printed, or ends within a line");
  if (is_cut && units < OCTOBER_BODY_UNITS)
    job_fail(server->job, "cut at %lld units, which the server takes for all", units);
  struct october_section section = october_section_of(body, &answer->output);
  if (by_lines && section.total != october_units(printed, strlen(printed)))
    job_fail(server->job, "the server counts %lld units", section.total);
  if ((is_cut || units < OCTOBER_BODY_UNITS) && !october_section_ends_with(&section, VERDICT))
    job_fail(server->job, "of %lld units the verdict is lost", section.total);
}

/* Tries each length at which the verdict is partly in the body and partly after it. */
OCTOBER_TEST(characters_of_each_width_are_cut_correctly_at_each_length) {
  char *text = malloc(OUTPUT_MAX);
  assert_non_null(text);
  for (size_t i = 0; i < 4; i++)
    for (long long units = OCTOBER_BODY_UNITS - AROUND; units <= OCTOBER_BODY_UNITS + 1; units++) {
      strcpy(fill(text, characters[i], units, LINE_UNITS), VERDICT "\n");
      expect_verdict(server, print(server, text), text, true);
    }
  free(text);
}

/* --- other shapes ----------------------------------------------------------------------------- */

/* A line longer than the body is complete or cut after the bound. */
OCTOBER_TEST(a_long_line_does_not_hide_the_verdict) {
  static const long long units[] = {OCTOBER_BODY_UNITS - 9, OCTOBER_BODY_UNITS, 1300000};
  char *text = malloc(OUTPUT_MAX);
  assert_non_null(text);
  for (size_t i = 0; i < 4; i++)
    for (size_t j = 0; j < sizeof units / sizeof *units; j++) {
      strcpy(fill(text, characters[i], units[j], units[j]), VERDICT "\n");
      expect_verdict(server, print(server, text), text, false);
    }
  free(text);
}

OCTOBER_TEST(output_beyond_the_body_ends_with_the_verdict) {
  char *text = malloc(OUTPUT_MAX);
  assert_non_null(text);
  for (size_t i = 0; i < 4; i++) {
    strcpy(fill(text, characters[i], 1390000, 200), VERDICT "\n");
    expect_verdict(server, print(server, text), text, true);
  }
  free(text);
}

OCTOBER_TEST(a_last_line_may_lack_its_newline) {
  char *text = malloc(OUTPUT_MAX);
  assert_non_null(text);
  for (int more = -8; more <= 0; more += 2) {
    char *end = stpcpy(fill(text, "✓", OCTOBER_BODY_UNITS + more, LINE_UNITS), VERDICT);
    const struct october_answer *answer = print(server, text);
    strcpy(end, "\n");
    expect_verdict(server, answer, text, true);
  }
  free(text);
}

/* The server counts a byte that is not UTF-8 as one character. */
OCTOBER_TEST(bytes_that_are_not_text_are_replaced) {
  const struct october_answer *answer = october_run_script(
      server, "line=$(head -c 1000 /dev/zero | tr '\\0' '\\377'); i=0; "
              "while [ $i -lt 1100 ]; do i=$((i+1)); echo $line; done; echo " VERDICT);
  struct october_section section = october_section_of(answer->output_content, &answer->output);
  assert_true(october_section_ends_with(&section, VERDICT));
  assert_int_equal(section.total, 1100 * 1001 + 8);
  assert_int_equal(october_units(section.head, section.head_length), 1000 * 1001);
}

/* Standard error is only in the events, and takes no space from the body. */
OCTOBER_TEST(a_megabyte_of_errors_does_not_hide_the_verdict) {
  enum { LINES = 8200, DIGITS = 127 };
  const struct october_answer *answer = october_run_script(
      server, job_format(server->job, "yes %0*d | head -n %d >&2; echo last >&2; echo " VERDICT,
                         DIGITS, 0, LINES));
  struct october_section section = october_section_of(answer->output_content, &answer->output);
  assert_true(october_section_ends_with(&section, VERDICT));
  section = october_section_of(NULL, &answer->errors);
  assert_int_equal(section.total, LINES * (DIGITS + 1) + 5);
  assert_true(october_section_ends_with(&section, "last"));
  assert_true(section.tail_length > 0);
}
