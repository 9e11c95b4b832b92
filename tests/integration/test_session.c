/* A coding session as a server drives it: clones a repository, finds its way, mends a bug, builds,
   tests, and asks what has changed. */

#include "tests/support/job.h"
#include "tests/support/kind_rows.h"
#include "tests/support/quoted.h"
#include "tests/test.h"

/* Longer than any step of the session. */
enum { RESULT_SECONDS = 60 };

static const cJSON *step(struct job *job, cJSON *fields) {
  cJSON_AddNumberToObject(fields, "timeoutSeconds", RESULT_SECONDS);
  return job_run_within(job, fields, RESULT_SECONDS * 1000);
}

/* One that succeeds; its outputContent, "" for null. */
static const char *good(struct job *job, cJSON *fields) {
  const cJSON *result = step(job, fields);
  if (cJSON_GetObjectItem(result, "exitCode")->valueint != 0)
    job_fail(job, "%s", job_text(result, "errorMessage"));
  return job_text(result, "outputContent");
}

/* In the directory of the file kinds. */
static cJSON *here(struct job *job, cJSON *fields) {
  cJSON_AddStringToObject(fields, "workingDirectory", kind_rows_directory(job));
  return fields;
}

/* What somebody has pushed to a server: a program that adds wrongly, and a test that says so. */
static void make_repository(struct job *job) {
  static const char text[] =
      "set -e; mkdir -p ../origin/src; cd ../origin\n"
      "printf 'int add(int a, int b);\\n' >src/add.h\n"
      "printf '#include \"add.h\"\\n\\nint add(int a, int b) {\\n  return a - b;\\n}\\n' "
      ">src/add.c\n"
      "printf '#include <stdio.h>\\n#include \"src/add.h\"\\n\\nint main(void) {\\n"
      "  printf(\"%%d\\\\n\", add(40, 2));\\n  return add(40, 2) == 42 ? 0 : 1;\\n}\\n' >test.c\n"
      "printf 'test: test.c src/add.c src/add.h\\n\\tcc -o test test.c src/add.c\\n\\n"
      "check: test\\n\\t./test\\n' >Makefile\n"
      "printf 'test\\n' >.gitignore\n"
      "git init -q -b main .; git add .; git -c user.name=a -c user.email=a@b commit -q -m one\n";
  (void)good(job, here(job, job_script(job, text)));
}

static void expect(const char *got, const char *expected) {
  if (strstr(got, expected) == NULL)
    fail_msg("no \"%s\" in \"%s\"", expected, got);
}

static void look_around(struct job *job) {
  const char *listed = good(job, kind_rows_step(job, "'kind':'listFiles','path':'.'"));
  expect(listed, job_json(job, "'path':'%s'", kind_rows_path(job, "src")));
  expect(listed, quoted("/Makefile','size_bytes':"));
  assert_string_equal(good(job, kind_rows_step(job, "'kind':'directoryTree','path':'.'")),
                      "./\n├── src/\n│   ├── add.c\n│   └── add.h\n"
                      "├── .gitignore\n├── Makefile\n└── test.c");
  static const char search[] = "'kind':'grep','path':'.','pattern':'\\\\badd\\\\(int','glob':'*.c'";
  assert_string_equal(good(job, kind_rows_step(job, search)),
                      quoted("[{'path':'src/add.c','line':3,"
                             "'text':'int add(int a, int b) {','kind':'match'}]"));
  static const char read[] =
      "'kind':'readFile','path':'src/add.c','startLine':3,'withLineNumbers':true";
  assert_string_equal(good(job, kind_rows_step(job, read)),
                      "3\tint add(int a, int b) {\n4\t  return a - b;\n5\t}\n6\t");
}

static void mend(struct job *job) {
  const cJSON *result = step(job, here(job, job_step(job, "make", "-s", "check", NULL)));
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 2);
  expect(job_text(result, "outputContent"), "38\n");
  cJSON *write = kind_rows_step(job, "'kind':'writeFile','path':'src/add.c'");
  cJSON_AddStringToObject(write, "content",
                          "#include \"add.h\"\n\nint add(int a, int b) {\n  return a + b;\n}\n");
  assert_string_equal(good(job, write), "");
  assert_string_equal(good(job, here(job, job_step(job, "make", "-s", "check", NULL))), "42\n");
}

JOB_TEST(a_bug_is_found_and_mended) {
  make_repository(job);
  (void)good(job, here(job, job_step(job, "git", "clone", "-q", "../origin", ".", NULL)));
  look_around(job);
  mend(job);
  cJSON *diff = here(job, job_step(job, "git", "diff", NULL));
  const char *changed = good(job, diff);
  expect(changed, "--- a/src/add.c\n+++ b/src/add.c\n");
  expect(changed, "\n-  return a - b;\n+  return a + b;\n }\n");
  assert_non_null(strstr(job_lines(job, diff, "stdout"), "\n }\n"));
  assert_string_equal(good(job, here(job, job_step(job, "git", "status", "--short", NULL))),
                      " M src/add.c\n");
  job_shut_down(job);
}
