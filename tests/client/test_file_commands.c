/* sandbox read, write, edit, ls, grep, tree: the file kinds for people. */
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

/* A script in which $D is a directory that the client and the sandbox share. */
static const char *with_directory(struct job *job, const char *script) {
  return job_format(job, "D='%s'; mkdir -p $D; cd $D; %s", job_path(job, "shared"), script);
}

static void expect(struct job *job, const char *script, int code, const char *output,
                   const char *errors) {
  sandbox_expect(job, with_directory(job, script), code, output, errors);
}

JOB_TEST(a_written_file_is_read_byte_for_byte) {
  expect(job, "printf 'a\\0\\377\\n' | $S write $D/a && $S read $D/a | cmp - $D/a", 0, "", "");
  expect(job, "$S write $D/new/dir/empty < /dev/null && $S read $D/new/dir/empty", 0, "", "");
  expect(job, "head -c 9000000 /dev/urandom > r; $S write $D/s < r && $S read $D/s | cmp - r", 0,
         "", "");
}

/* The file is larger than writeBytes allows. */
JOB_TEST(a_large_file_is_joined_in_the_sandbox) {
  expect(job, "head -c 27000000 /dev/urandom > r; $S write $D/s < r && cmp s r && ls -A", 0,
         "r\ns\n", "");
}

JOB_TEST(read_numbers_the_chosen_lines) {
  expect(job, "seq 20 > a; $S read $D/a -l 9:2", 0, " 9\t9\n10\t10\n", "");
  expect(job, "$S read -l 20 $D/a", 0, "20\t20\n21\t\n", "");
  expect(job, "$S read -l 0:1 $D/a", 64, "", NULL);
}

JOB_TEST(a_failed_file_command_exits_with_1_and_says_why) {
  expect(job, "$S read /no/such", 1, "", "sandbox: file not found: /no/such\n");
  expect(job, "$S ls /no/such", 1, "", "sandbox: directory not found: /no/such\n");
  expect(job, "$S write / < /dev/null", 1, "", NULL);
  expect(job, "$S edit /no/such a b", 1, "", "sandbox: file not found: /no/such\n");
  expect(job, "$S grep '(' $D", 2, "",
         "sandbox: pattern: missing closing parenthesis at offset 1\n");
  expect(job, "$S grep 'a\nb' $D", 2, "", NULL);
  expect(job, "$S grep a /no/such", 1, "", "sandbox: path not found: /no/such\n");
  expect(job, "$S read \"$(printf '/a\\377')\"", 125, "", "sandbox: not UTF-8: /a\xff\n");
}

JOB_TEST(an_edit_shows_the_change) {
  expect(job, "printf 'a b a\\n' > a; $S edit $D/a b c > said && cat a && grep -c '^+ c' said", 0,
         "a c a\n1\n", "");
  expect(job, "$S edit $D/a a x 2> said; code=$?; tail -n 1 said; exit $code", 1,
         "sandbox: --all replaces every occurrence\n", "");
  expect(job, "$S edit $D/a a x --all > said && cat a", 0, "x c x\n", "");
}

JOB_TEST(a_directory_is_listed_and_drawn) {
  expect(job, "mkdir d d/sub; printf 12345678901 > d/b; : > d/a; $S ls $D/d", 0,
         "file   0  a\nfile  11  b\ndir    -  sub/\n", "");
  expect(job,
         "mkdir m; cd m; touch $(seq 1000 3500); ln -s none 3501; $S ls $D/m > ../said; "
         "ls > ../names; sed 's/.* //' ../said | cmp - ../names && wc -l < ../said",
         0, "2502\n", "");
  expect(job, "$S tree $D/d", 0, "d/\n├── sub/\n├── a\n└── b\n", "");
}

JOB_TEST(matches_have_a_path_and_a_line) {
  expect(job, "mkdir g; printf 'x\\nOne\\n' > g/a.txt; echo one > g/b.c; cd g; $S grep one $D/g", 0,
         job_format(job, "%s/g/b.c:1:one\n", job_path(job, "shared")), "");
  expect(job, "$S grep one $D/g -i -g '*.txt'", 0,
         job_format(job, "%s/g/a.txt:2:One\n", job_path(job, "shared")), "");
  expect(job, "$S grep none $D/g", 1, "", "");
  expect(job, "mkdir -p h/.h; echo two > h/.h/x; $S grep two $D/h; $S grep two $D/h --hidden -l", 0,
         job_format(job, "%s/h/.h/x\n", job_path(job, "shared")),
         "grep left out 1 directory and 0 files that are hidden or ignored\n");
  expect(job,
         "cd /; echo '1 2 3 o 5 6 7 8 o 10' | tr ' ' '\n' > $D/g/c; $S grep -c o $D/g/c; "
         "$S grep -A 1 -B2 o $D/g/c | sed 's/.*[/]//'; $S grep -C 1 10 $D/g/c | sed 's/.*[/]//'",
         0,
         job_format(job,
                    "%s/g/c:2\nc-2-2\nc-3-3\nc:4:o\nc-5-5\n--\nc-7-7\nc-8-8\nc:9:o\n"
                    "c-10-10\nc-9-o\nc:10:10\n",
                    job_path(job, "shared")),
         "");
  expect(job, "$S grep -A x o $D/g; echo $?; $S grep -C -1 o $D/g", 64, "64\n", NULL);
  expect(job, "$S grep none $D/g -g '*.py'", 1, "",
         "grep found no file that matches the glob '*.py'\n");
}

JOB_TEST(the_json_option_prints_the_output_content) {
  expect(job, "printf ab > a; $S --json read $D/a; $S read --json -l 1:1 $D/a", 0,
         "{\"size\":2,\"content\":\"YWI=\"}\n\"1\\tab\"\n", "");
  expect(job, "mkdir e; $S ls --json $D/e; $S tree --json $D/e", 0, "[]\n\"e/\"\n", "");
}

JOB_TEST(file_commands_leave_no_keys) {
  const cJSON *first = job_push_echo(job, "first");
  expect(job, "echo a | $S write $D/a; $S read $D/a; $S edit $D/a a b > said", 0, "a\n", "");
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_wait_length(job, "results", 0);
  job_expect_nothing_left(job);
}

JOB_TEST(an_interrupted_write_leaves_nothing) {
  expect(
      job,
      "mkfifo q; (head -c 3000000 /dev/zero; exec sleep 600) > q & s=$!; $S write $D/a < q & p=$!; "
      "until ls -A | grep -q part; do sleep 0.05; done; kill $p; wait $p; echo $?; "
      "kill $s; ls -A",
      0, "143\nq\n", NULL);
}

JOB_TEST_NO_AGENT(without_an_agent_nothing_is_pushed) {
  sandbox_expect(job, "$S read /etc/passwd", 125, "", NULL);
  job_wait_length(job, "in", 0);
}
