// Forms whose arguments are tags.
#include <gtest/gtest.h>

#include "text/tool_form_fixture.hpp"

namespace kvasir::text {
namespace {

TEST(ToolTags, Qwen3Coder) {
  check("qwen3_coder",
        {
            {"Hi <b>there</b>", "Hi <b>there</b>"},
            {"<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n"
             "</tool_call>",
             "\n-> f {\"s\": \"12\", \"n\": 3}"},
            {"Look.\n<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n<parameter=x>\n"
             "{\"a\": [1]}\n</parameter>\n</function>\n</tool_call>",
             "Look.\n-> f {}\n-> g {\"x\": {\"a\":[1]}}"},
            {"<function=f>\n<parameter=s>\na\n  b\"\n</parameter>\n</function>", "\n-> f {\"s\": \"a\\n  b\\\"\"}"},
            {"<tool_call>\nno", "\nno"},
            {"<tool_call>\n<function=f>\n<parameter=s>\nhal", "\n-> f {\"s\": \"hal\"}"},
            // What opens ends what was open; a damaged tag costs its own parameter.
            {"<tool_call>\n<function=f>\n<parameter=s>\none\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>",
             "\n-> f {\"s\": \"one\", \"n\": 3}"},
            {"<tool_call>\n<function=f>\n<parameter=s>\none\n</function>\n</tool_call>", "\n-> f {\"s\": \"one\"}"},
            {"<tool_call>\n<function=f>\n<parameter=n>\n3\n</parameter>\n<parameter=s\n</function>\n</tool_call>",
             "\n-> f {\"n\": 3}"},
            {"<tool_call>\n<function=f>\n<parameter=s>\na </function> b\n</parameter>\n</function>\n</tool_call>",
             "\n-> f {\"s\": \"a </function> b\"}"},
            // But none has it on a line of its own.
            {"<tool_call>\n<function=f>\n<parameter=s>\na\n</function>\nb\n</parameter>\n</function>\n</tool_call>",
             "b\n\n\n\n-> f {\"s\": \"a\"}"},
            // One object in place of the tags may speak of them, unless it is damaged.
            {"<function=f>\n{\"s\": \"</function>\\n</tool_call> b\"}\n</function>",
             "\n-> f {\"s\": \"</function>\\n</tool_call> b\"}"},
            {"<function=f>\n{\"s\": \"</function> b}\n</function>", "b}\n\n-> f {\"s\": \""},
            // What is given twice counts once.
            {"<function=f>\n<parameter=s>\na\n</parameter>\n<parameter=s>\nb\n</parameter>\n</function>",
             "\n-> f {\"s\": \"a\"}"},
            {"<tool_call>\n<function=f>\n<parameter=l>\n['a', True]\n</parameter>\n</function>\n</tool_call>",
             "\n-> f {\"l\": [\"a\",true]}"},
            {"<tool_call>\n<function=f>\n<function=f>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>",
             "\n-> f {\"n\": 3}"},
        },
        &kTools);
}

TEST(ToolTags, Glm) {
  check("glm",
        {
            {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</"
             "arg_value>\n"
             "</tool_call>",
             "\n-> f {\"s\": \"12\", \"n\": 3}"},
            {"A\n<tool_call>f\n</tool_call>\n<tool_call>f</tool_call>", "A\n-> f {}\n-> f {}"},
            {"<tool_call>{\"name\": 1}</tool_call>", "{\"name\": 1}"},
            {"<tool_call>f<arg_key>s</arg_key>how many</arg_value></tool_call>", "\n-> f {\"s\": \"how many\"}"},
            {"<tool_call>f<arg_key>s</arg_key><arg_value>how many</tool_call>", "\n-> f {\"s\": \"how many\"}"},
            {"<tool_call>f<arg_key>s<arg_value>how many</arg_value></tool_call>", "\n-> f {\"s\": \"how many\"}"},
            {"f\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>", "\n-> f {\"n\": 3}"},
            {"x <tool_calls", "x <tool_calls"},
        },
        &kTools);
}

TEST(ToolTags, Invoke) {
  check("minimax",
        {{"I look.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"n\">3</parameter>\n<parameter "
          "name=\"s\">4</parameter>\n</invoke>\n</minimax:tool_call>",
          "I look.\n-> f {\"n\": 3, \"s\": \"4\"}"},
         {"<invoke name=\"f\">\n<parameter name=\"s\">a\n<parameter name=\"n\">3", "\n-> f {\"s\": \"a\", \"n\": 3}"}},
        &kTools);
  check(
      "deepseek_dsml",
      {{"I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"g\">\n<｜DSML｜parameter name=\"a\" "
        "string=\"false\">3</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"true\">3</｜DSML｜parameter>\n"
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "I look.\n-> g {\"a\": 3, \"b\": \"3\"}"}});
}

}  // namespace
}  // namespace kvasir::text
