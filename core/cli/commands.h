/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the commands of `kvstore` and what they share.
 *
 * A command is a line of the table in kvstore.c, which also answers --help, and a file cmd_NAME.c.
 * It is called with argv[0] its own name and returns the exit status: 0 done, 1 a problem that it
 * told on stderr, 2 wrong usage. It prints on stdout; main sees to it that all of that was
 * written. */
#ifndef KVS_CLI_COMMANDS_H
#define KVS_CLI_COMMANDS_H

#include <kvstore/kvstore.h>

typedef struct command {
    const char *name;
    const char *usage; /* what follows the name */
    const char *summary;
    const char *help; /* lines, laid out as describe_man.c says */
    int (*run)(int argc, char **argv);
} command_t;

int cmd_bench(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_conformance(int argc, char **argv);
int cmd_disable(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_enable(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_scheduler(int argc, char **argv);
int cmd_server(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_new_plugin(int argc, char **argv);

/* Print "kvstore NAME: TEXT" and the command's usage on stderr; returns 2. */
int cli_usage_error(const char *command, const char *format, ...) KVS_PRINTF(2, 3);
/* Print "kvstore NAME: " and this thread's last error on stderr; returns 1. */
int cli_failed(const char *command);
/* For commands that take one option, which has no value, or none (`flag` NULL), and exactly `n_operands` operands, which are
 * written to `ret_operands`. 0, or 2 if the usage was wrong, which has been told. */
int cli_parse_flag(int argc, char **argv, const char *flag, int n_operands,
                   const char **ret_operands, int *ret_flag);
/* The same, the option being --json. */
int cli_parse(int argc, char **argv, int n_operands, const char **ret_operands, int *ret_json);

#endif
