#include "paceline/cli/table.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

TEST(Table, AlignsColumnsByLetters) {
  Table table({"NAME", "STATE"});
  table.add({"größe", "finished"});
  table.add({"a", ""});
  EXPECT_EQ(table.text(0), "NAME   STATE\ngröße  finished\na\n");
  EXPECT_EQ(table.text(9), "NAME   ST\ngröße  fi\na\n");
}

TEST(Table, NothingThatATerminalObeysIsPrinted) {
  EXPECT_EQ(printable("a b\n\t\x1b[31m\x7f"), "a b\\n\\t\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3") << "not UTF-8";
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "a control character beyond ASCII";
  EXPECT_EQ(printable("größe €"), "größe €");
}

TEST(Table, TellsHowLongAgo) {
  EXPECT_EQ(ago_text(-3), "0 s ago");
  EXPECT_EQ(ago_text(59.9), "59 s ago");
  EXPECT_EQ(ago_text(7200), "2 h ago");
  EXPECT_EQ(ago_text(86400 * 3), "3 days ago");
}

}  // namespace
}  // namespace paceline::cli
