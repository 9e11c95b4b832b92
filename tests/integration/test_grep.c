/* grep: wire/PROTOCOL.md. */

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/kind_rows.h"
#include "tests/test.h"

#define GREP "'kind':'grep','path':"

#define MATCH(path, line, text)                                                                    \
  "{'path':'" path "','line':" #line ",'text':'" text "','kind':'match'}"
#define CONTEXT(path, line, text)                                                                  \
  "{'path':'" path "','line':" #line ",'text':'" text "','kind':'context'}"

static void run(struct job *job, const struct kind_row *rows, size_t count) {
  job_start_agent(job, NULL);
  kind_rows_run(job, rows, count);
}

static void make_tree(struct job *job) {
  kind_rows_file(job, "a.c", "int a;\nint needle;\nint b;\n");
  kind_rows_file(job, "sub/b.h", "needle one\r\nnothing\r\nneedle two\r\n");
  kind_rows_file(job, "sub/deep/c.txt", "caf\xC3\xA9 needle\n");
  kind_rows_file(job, ".hidden", "needle");
  kind_rows_file(job, "node_modules/x.c", "needle");
  kind_rows_file(job, "sub/obj/x.c", "needle");
}

JOB_TEST_NO_AGENT(modes_are_as_in_the_contract) {
  make_tree(job);
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0666), 0);
  static const struct kind_row rows[] = {
      {GREP "'.','pattern':'needle'", 0,
       "[" MATCH(".hidden", 1, "needle") "," MATCH("a.c", 2, "int needle;") "," MATCH(
           "sub/b.h", 1, "needle one") "," MATCH("sub/b.h", 3,
                                                 "needle two") "," MATCH("sub/deep/c.txt", 1,
                                                                         "caf\xC3\xA9 needle") "]",
       NULL},
      {GREP "'$D','pattern':'needle','outputMode':'filesWithMatches'", 0,
       "[{'path':'.hidden'},{'path':'a.c'},{'path':'sub/b.h'},"
       "{'path':'sub/deep/c.txt'}]",
       NULL},
      {GREP "'sub','pattern':'needle','outputMode':'count'", 0,
       "[{'path':'b.h','count':2},{'path':'deep/c.txt','count':1}]", NULL},
      {GREP "'sub/b.h','pattern':'two$$'", 0, "[" MATCH("b.h", 3, "needle two") "]", NULL},
      {GREP "'.','pattern':'needle','glob':'*.{c,h}','outputMode':'filesWithMatches'", 0,
       "[{'path':'a.c'},{'path':'sub/b.h'}]", NULL},
      {GREP "'.','pattern':'needle','glob':'sub/**','outputMode':'filesWithMatches'", 0,
       "[{'path':'sub/b.h'},{'path':'sub/deep/c.txt'}]", NULL},
      {GREP "'a.c','pattern':'needle','contextBefore':1,'contextAfter':5", 0,
       "[" CONTEXT("a.c", 1, "int a;") "," MATCH("a.c", 2, "int needle;") "," CONTEXT("a.c", 3,
                                                                                      "int b;") "]",
       NULL},
      {GREP "'sub/b.h','pattern':'one','glob':'*.c'", 0, "[" MATCH("b.h", 1, "needle one") "]",
       NULL},
      {GREP "'.','pattern':'no such thing'", 0, "[]", NULL},
      {GREP "'none','pattern':'x'", 0, "[]", NULL},
      {GREP "'fifo','pattern':'x'", 1, NULL, "is a FIFO, not a regular file: fifo"},
      {GREP "'node_modules','pattern':'needle'", 0, "[" MATCH("x.c", 1, "needle") "]", NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(patterns_are_those_that_models_write) {
  kind_rows_file(job, "f", "GetName(x)\nname = 42;\n\xC3\x89t\xC3\xA9\nfoo.bar\n");
#define ONE(line, text) 0, "[" MATCH("f", line, text) "]", NULL
  static const struct kind_row rows[] = {
      {GREP "'f','pattern':'\\\\bGet\\\\w+\\\\('", ONE(1, "GetName(x)")},
      {GREP "'f','pattern':'(?i)getname'", ONE(1, "GetName(x)")},
      {GREP "'f','pattern':'^name\\\\s*=\\\\s*\\\\d+;$$'", ONE(2, "name = 42;")},
      {GREP "'f','pattern':'^\\\\p{L}+$$'", ONE(3, "\xC3\x89t\xC3\xA9")},
      {GREP "'f','pattern':'(?<=foo\\\\.)bar'", ONE(4, "foo.bar")},
      {GREP "'f','pattern':'Get(?!Value)'", ONE(1, "GetName(x)")},
      {GREP "'f','pattern':'zzz|(?<number>\\\\d{2})'", ONE(2, "name = 42;")},
      {GREP "'f','pattern':'Get\\\\d{2}|t\xC3\xA9'", ONE(3, "\xC3\x89t\xC3\xA9")},
      {GREP "'f','pattern':'x\\\\)\\\\nname'", 0, "[]", NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(a_cut_is_clear) {
  kind_rows_file(job, "f", "1\n2\n3\n");
  kind_rows_file(job, "g", "1\n");
  static const struct kind_row rows[] = {
      {GREP "'f','pattern':'[0-9]','headLimit':2", 0,
       "[" MATCH("f", 1, "1") "," MATCH("f", 2, "2") "]", "grep truncated at 2 matches"},
      {GREP "'f','pattern':'[0-9]','headLimit':3", 0,
       "[" MATCH("f", 1, "1") "," MATCH("f", 2, "2") "," MATCH("f", 3, "3") "]", NULL},
      {GREP "'.','pattern':'1','headLimit':1,'outputMode':'filesWithMatches'", 0, "[{'path':'f'}]",
       "grep truncated at 1 matches"},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(what_is_missing_is_told) {
  enum { LENGTH = 10001 };
  kind_rows_deep_file(job);
  char *text = malloc(LENGTH + 32);
  assert_non_null(text);
  memset(text, 'a', LENGTH);
  memcpy(text + LENGTH, "\nyes\nyes\n", 10);
  kind_rows_file(job, "f", text);
  free(text);
  char *large = malloc(1000002);
  assert_non_null(large);
  memset(large, 'x', 1000001);
  large[1000001] = '\0';
  kind_rows_file(job, "dist/large", large);
  free(large);
  static const struct kind_row rows[] = {
      {GREP "'dist/large','pattern':'x'", 0, "[]",
       "grep passed over a file of more than 1,000,000 bytes"},
      {GREP "'/proc/self/cmdline','pattern':'agent'", 0, "[]", "grep passed over a binary file"},
      {GREP "'.','pattern':'x'", 0, "[]", "1 directories could not be looked into"},
      {GREP "'f','pattern':'(a|aa)+b?$$(?<=!)|s'", 0,
       "[" MATCH("f", 2, "yes") "," MATCH("f", 3, "yes") "]",
       "grep passed over 1 lines that are too long for the pattern, the first in f:1"},
      {GREP "'.','pattern':'(a|aa)+b?$$(?<=!)|s','headLimit':1", 0, "[" MATCH("f", 2, "yes") "]",
       "grep truncated at 1 matches; "
       "grep passed over 1 lines that are too long for the pattern, the first in f:1; "
       "1 directories could not be looked into"},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(what_cannot_be_done_is_said) {
  kind_rows_file(job, "slow", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n");
  job_start_agent(job, NULL);
  static const struct {
    const char *fields;
    const char *parts[2];
  } rows[] = {
      {GREP "'.','pattern':'a(b'", {"missing closing parenthesis", "offset 3"}},
      {GREP "'.','pattern':'[z-a]'", {"range out of order", "offset"}},
      {GREP "'.','pattern':'a','glob':'['", {"glob", "["}},
      {GREP "'.','pattern':'^(a+)+$$'", {"too expensive", "slow:1"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const cJSON *result = job_run(job, kind_rows_step(job, rows[i].fields));
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 1);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(result, "outputContent")));
    for (size_t k = 0; k < 2; k++)
      job_expect_part(job, result, "errorMessage", rows[i].parts[k]);
  }
}
