/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - the table of commands told to other programs: as manual pages and as words for a
 * shell's completion. For the build and the completion, not for users: --help is theirs. */
#ifndef KVS_CLI_DESCRIBE_H
#define KVS_CLI_DESCRIBE_H

#include "commands.h"

#include <stddef.h>

/* kvstore(1), with a line for each command. */
void describe_man_overview(const command_t *commands, size_t n_commands);
/* kvstore-NAME(1): the command's usage, summary and help. */
void describe_man_command(const command_t *command);
/* A line for each command: its name, then the options that its usage and help begin lines with. */
void describe_words(const command_t *commands, size_t n_commands);

#endif
