// What is found out about templates by rendering small conversations.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/chat_adapt.hpp"
#include "text/conversation.hpp"

namespace kvasir::text {
namespace {

TemplateTraits traits_of(const char* source) { return ProbedTemplate(source, "", "", {}).traits; }

TEST(ChatProbe, ATemplateThatShowsContentsAlone) {
  const TemplateTraits t = traits_of("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(t.content, TemplateTraits::Content::kText);
  EXPECT_EQ(t.tool_form->name, "generic");
  EXPECT_FALSE(t.knows_form || t.shows_tools() || t.shows_calls || t.alternates || t.reasoning);
  EXPECT_TRUE(t.shows_results && t.takes_system);
  EXPECT_EQ(t.ids, CallIdForm::kAny);
}

TEST(ChatProbe, WhatItRefusesAndNeeds) {
  const TemplateTraits t = traits_of(
      "{% for t in tools or [] %}{{ t.function.name + t.function.description }}{% endfor %}"
      "{% for m in messages %}{% if m.role == 'system' or (loop.index0 > 0 and m.role == messages[loop.index0 - "
      "1].role) "
      "%}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{% if c.id|length != 9 %}{{ raise_exception('nine') }}{% endif %}{{ c.function.name }}{% endfor %}"
      "{{ m.thinking }}{% endfor %}");
  EXPECT_TRUE(t.alternates && t.needs.description && t.shows_tools() && t.shows_calls);
  EXPECT_FALSE(t.takes_system || t.needs.parameters);
  EXPECT_TRUE(t.shows_system) << "its refusal is what clients hear";
  EXPECT_EQ(t.ids, CallIdForm::kShort);
  EXPECT_EQ(t.reasoning_name, "thinking");
}

TEST(ChatProbe, PartsAndArguments) {
  const TemplateTraits t = traits_of(
      "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% if p.type == 'image' %}<|image|>{% endif %}"
      "{% endfor %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}");
  EXPECT_EQ(t.content, TemplateTraits::Content::kParts);
  EXPECT_EQ(t.picture_type, "image");
  EXPECT_EQ(t.picture_text, "<|image|>");
  EXPECT_FALSE(t.arguments_as_objects) << "Python would print them";
}

// What messages become depends on the traits alone.
TEST(ChatProbe, MessagesFollowTraits) {
  TemplateTraits t;
  Json message{{"role", "user"}, {"content", nullptr}};
  adapt_content(message, "here", t);
  EXPECT_EQ(message["content"], "");
  t.content = TemplateTraits::Content::kParts;
  adapt_content(message, "here", t);
  EXPECT_EQ(message["content"], Json::parse(R"([{"type": "text", "text": ""}])"));
  t.reasoning_name = "thought";
  message["reasoning_content"] = "hm";
  adapt_reasoning(message, t);
  EXPECT_EQ(message["thought"], "hm");
  EXPECT_FALSE(message.contains("reasoning_content"));
}

}  // namespace
}  // namespace kvasir::text
