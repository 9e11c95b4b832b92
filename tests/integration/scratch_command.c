/* The only command in an otherwise empty root. Prints its directory and its arguments. Built
   statically by test_scratch_root. */

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char directory[4096];
  if (getcwd(directory, sizeof directory) == NULL)
    return 1;
  printf("in %s\n", directory);
  for (int i = 1; i < argc; i++)
    printf("%s\n", argv[i]);
  return 0;
}
