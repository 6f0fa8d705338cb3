// Filters, tests, functions and methods; all texts are what jinja2 3.1 renders with the settings of Hugging Face.
#include "text/jinja/cases_fixture.hpp"

namespace kvasir::text::jinja {
namespace {

TEST(JinjaFilters, LikeJinja2) {
  check({
      {"{{ a }}|{{ a + 1 }}|{{ a / 2 }}|{{ a // 2 }}|{{ a % 3 }}|{{ a ** 2 }}|{{ -a }}|{{ +a }}|{{ 2 ** -1 }}|{{ -7 // "
       "2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}",
       "5|6|2.5|2|2|25|-5|5|0.5|-4|2|-2"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ (1,2) == "
       "(1,2) }} {{ [1] == (1,) }} {{ none == none }}",
       "True False True True True True True False True"},
      {"{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[5] is defined }} {{ l[5:] }} {{ (1,2,3)[1:] }} {{ "
       "range(5)[2] }} {{ range(5)[1:3]|list }}",
       "3 2 [1, 2] [2, 1, 3] False [] (2, 3) 2 [1, 2]"},
      {"{{ d.b }} {{ d['A'] }} {{ d.zz is defined }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 7) }} {{ "
       "d.items() | list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.keys() }} {{ d.items() }} {{ d.values() }}",
       "1 2 False 1 None 7 [('b', 1), ('A', 2), ('c', None)] ['b', 'A', 'c'] [1, 2, None] dict_keys(['b', 'A', 'c']) "
       "dict_items([('b', 1), ('A', 2), ('c', None)]) dict_values([1, 2, None])"},
      {"{{ s|upper }} {{ s|lower }} {{ s|title }} {{ 'foo bar-baz (qux) [x]'|title }} {{ s|capitalize }} {{ u|upper }} "
       "{{ 'ß straße ǆ ŉ'|upper }} {{ 'İÀÉ'|lower }} {{ u|length }} {{ 'ÿ'|upper }}",
       "HELLO WORLD hello world Hello World Foo Bar-Baz (Qux) [X] Hello world ZÜRICH 你好 🙂 SS STRASSE Ǆ ʼN "
       "i̇àé "
       "11 "
       "Ÿ"},
      {"{{ s|replace('l','L') }} {{ s|replace('l','L',1) }} {{ s|replace('','-') }} {{ ''|replace('','x') }} {{ "
       "5|replace('5','6') }} {{ u.replace('你','x') }}",
       "HeLLo WorLd HeLlo World -H-e-l-l-o- -W-o-r-l-d- x 6 Zürich x好 🙂"},
      {R"({{ '  x '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ ' \u00a0\u3000a\x1f'|trim }}|)", "x|a|a|"},
      {"{{ l|sort }} {{ l|sort(reverse=true) }} {{ l|max }} {{ l|min }} {{ l|sum }} {{ l|first }} {{ l|last }} {{ "
       "l|length }} {{ l|count }} {{ l|join(',') }} {{ l|join }} {{ l|reverse|list }} {{ s|reverse }} {{ e|first }} {{ "
       "e|max }} {{ [] | last }}",
       "[1, 2, 3] [3, 2, 1] 3 1 6 3 2 3 3 3,1,2 312 [2, 1, 3] dlroW olleH   "},
      {"{{ ['b','A','a','B']|sort }} {{ ['b','A','a','B']|sort(case_sensitive=true) }} {{ "
       "['b','A','a','B']|unique|list }} {{ ['b','A','a','B']|max }} {{ [1,1,2]|unique|join }}",
       "['A', 'a', 'b', 'B'] ['A', 'B', 'a', 'b'] ['b', 'A'] b 12"},
      {"{{ users|map(attribute='name')|list }} {{ users[:2]|map(attribute='addr.city')|list }}",
       "['Bo', 'al', 'Cy'] ['X', 'Y']"},
      {"{{ users|map(attribute='addr.city', default='-')|list }} {{ users|map(attribute='zz', default='-')|list }}",
       "['X', 'Y', '-'] ['-', '-', '-']"},
      {"{{ users|selectattr('age','equalto',3)|map(attribute='name')|join(' ') }} {{ "
       "users|rejectattr('addr')|list|length }} {{ users|selectattr('addr')|list|length }} {{ "
       "users|selectattr('age','gt',2)|list|length }}",
       "Bo al 1 2 2"},
      {"{{ users|sort(attribute='age')|map(attribute='name')|list }} {{ "
       "users|sort(attribute='age,name')|map(attribute='name')|list }} {{ users|groupby('age')|list }}",
       "['Cy', 'Bo', 'al'] ['Cy', 'al', 'Bo'] [(1, [{'name': 'Cy', 'age': 1}]), (3, [{'name': 'Bo', 'age': 3, 'addr': "
       "{'city': 'X'}}, {'name': 'al', 'age': 3, 'addr': {'city': 'Y'}}])]"},
      {"{{ users|sum(attribute='age') }} {{ users|max(attribute='age') }} {{ [1,2,3,4]|select('odd')|list }} {{ "
       "[1,2,3,4]|reject('divisibleby',2)|list }} {{ [0,1,'']|select|list }} {{ ['a','b']|map('upper')|join }} {{ [' a "
       "','b ']|map('trim')|list }} {{ [[1,2],[3]]|map('length')|list }} {{ ['1','2']|map('int')|sum }}",
       "7 {'name': 'Bo', 'age': 3, 'addr': {'city': 'X'}} [1, 3] [1, 3] [1] AB ['a', 'b'] [2, 1] 3"},
      {"{{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3,4,5]|batch(2,'x')|list }} {{ [1,2,3,4,5]|slice(3)|list }} {{ "
       "[1,2,3,4,5]|slice(3,'x')|list }}",
       "[[1, 2], [3, 4], [5]] [[1, 2], [3, 4], [5, 'x']] [[1, 2], [3, 4], [5]] [[1, 2], [3, 4], [5, 'x']]"},
      {"{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'a':2,'b':1}|dictsort(by='value') }} {{ "
       "{'a':2,'b':1}|dictsort(reverse=true) }} {{ d|items|list }} {{ undefinedvar|items|list }} {{ d|list }}",
       "[('A', 2), ('b', 1), ('c', None)] [('A', 2), ('b', 1), ('c', None)] [('b', 1), ('a', 2)] [('b', 1), ('a', 2)] "
       "[('b', 1), ('A', 2), ('c', None)] [] ['b', 'A', 'c']"},
      {"{{ undefinedvar|default('x') }} {{ ''|default('x') }} {{ ''|default('x', true) }} {{ none|d('q') }} {{ "
       "none|default('q', boolean=true) }} {{ undefinedvar|default }}",
       "x  x None q "},
      {"{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1f'|int(base=16) }} {{ '42.9'|int }} {{ 3.9|int }} {{ "
       "'1.5'|float }} {{ 'q'|float }} {{ 2|float }} {{ true|int }} {{ '-3'|int }} {{ ' 12 '|int }} {{ none|int }}",
       "42 0 7 31 42 3 1.5 0.0 2.0 1 -3 12 0"},
      {"{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1,'floor') }} {{ 42.55|round(1, 'ceil') }} "
       "{{ 5|round }} {{ 1234|round(-2) }} {{ -3|abs }} {{ -3.5|abs }}",
       "2.0 4.0 2.67 42.5 42.6 5 1200 3 3.5"},
      {R"({{ d|tojson }} {{ l|tojson }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ d|tojson(indent=2) }} {{ users|tojson(indent=4) }} {{ {}|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {'z':1,'a':[1,{'q':none}]}|tojson(sort_keys=true) }} {{ l|tojson(separators=(',',':')) }} {{ d|tojson(separators=(',',':')) }} {{ '</script>&\'"\n\x01\x7f'|tojson }} {{ 1.0|tojson }} {{ true|tojson }} {{ none|tojson }} {{ (1,2)|tojson }} {{ {1:2, none:3, true:4, 1.5:1}|tojson }} {{ l|tojson(indent='--') }})",
       "{\"b\": 1, \"A\": 2, \"c\": null} [3, 1, 2] \"Z\303\274rich \344\275\240\345\245\275 \360\237\231\202\" "
       "\"Z\\u00fcrich \\u4f60\\u597d \\ud83d\\ude42\" {\n  \"b\": 1,\n  \"A\": 2,\n  \"c\": null\n} [\n    {\n        "
       "\"name\": \"Bo\",\n        \"age\": 3,\n        \"addr\": {\n            \"city\": \"X\"\n        }\n    },\n  "
       "  {\n        \"name\": \"al\",\n        \"age\": 3,\n        \"addr\": {\n            \"city\": \"Y\"\n        "
       "}\n    },\n    {\n        \"name\": \"Cy\",\n        \"age\": 1\n    }\n] {} [] {\"a\": [1, {\"q\": null}], "
       "\"z\": 1} [3,1,2] {\"b\":1,\"A\":2,\"c\":null} \"</script>&'\\\"\\n\\u0001\177\" 1.0 true null [1, 2] {\"1\": "
       "4, \"null\": 3, \"1.5\": 1} [\n--3,\n--1,\n--2\n]"},
      {"{{ html|e }} {{ html|escape|escape }} {{ html|safe }} {{ html|forceescape }} {{ ('<' + ('b'|safe)) }} {{ '<' ~ "
       "('b'|safe) }} {{ html|safe is escaped }} {{ (html|e)|forceescape }}",
       R"(&lt;a href=&#39;x&#39;&gt;&amp;&#34;&lt;/a&gt; &lt;a href=&#39;x&#39;&gt;&amp;&#34;&lt;/a&gt; <a href='x'>&"</a> &lt;a href=&#39;x&#39;&gt;&amp;&#34;&lt;/a&gt; &lt;b <b True &amp;lt;a href=&amp;#39;x&amp;#39;&amp;gt;&amp;amp;&amp;#34;&amp;lt;/a&amp;gt;)"},
      {R"({{ "%s is %d years, %5.2f|%-5s|%05d|%x|%r|%%"|format('x', 5, 3.14159, 'ab', 42, 255, 'q') }} {{ "%(a)s" % {'a':1} }} {{ "%s" % 'x' }} {{ "%s,%s" % (1,2) }} {{ '%c%i' % ('a', 3.7) }} {{ '%+d % d' % (3, 4) }} {{ '%e %g' % (12345.678, 0.00001) }})",
       "x is 5 years,  3.14|ab   |00042|ff|'q'|% 1 x 1,2 a3 +3  4 1.234568e+04 1e-05"},
      {R"({{ "{} {1}".format(1) if false else "{} {}".format(1,'b') }} {{ "{0}{1}{0}".format('a','b') }} {{ "{x}".format(x=3) }} {{ "{:>5}|{:<5}|{:^5}|{:05.1f}|{:d}|{:x}".format('a','b','c',3.14159,42,255) }} {{ "{!r}".format('q') }} {{ "{{}}".format() }} {{ '{0[a]}'.format({'a':4}) }})",
       "1 b aba 3     a|b    |  c  |003.1|42|ff 'q' {} 4"},
      {R"({{ s.split() }} {{ s.split('o') }} {{ s.split('o',1) }} {{ 'a  b c '.split(None,1) }} {{ ' a b  c '.rsplit(None,1) }} {{ 'a,b,c'.rsplit(',',1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }})",
       R"(['Hello', 'World'] ['Hell', ' W', 'rld'] ['Hell', ' World'] ['a', 'b c '] [' a b', 'c'] ['a,b', 'c'] [] [''] ['a', 'b', 'c'] ['a\n', 'b\n'])"},
      {"{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('x','H')) }} {{ s.find('o') }} {{ "
       "s.rfind('o') }} {{ s.find('zz') }} {{ u.find('你') }} {{ s.count('l') }} {{ s.index('W') }} {{ s.find('o', 5) "
       "}} {{ s.count('l', 3, 9) }} {{ 'abc'.find('', 3) }} {{ 'abc'.find('', 4) }} {{ 'aaa'.count('') }}",
       "True True True 4 7 -1 7 3 6 7 1 3 -1 4"},
      {R"({{ s.strip('Hd') }} {{ s.lstrip('H') }} {{ s.rstrip('d') }} {{ s.partition(' ') }} {{ s.rpartition('o') }} {{ s.partition('q') }} {{ s.rpartition('q') }} {{ s.removeprefix('Hello ') }} {{ s.removesuffix('ld') }} {{ s.swapcase() }} {{ "they're bill's".title() }} {{ 'x'.join(['a','b']) }})",
       "ello Worl ello World Hello Worl ('Hello', ' ', 'World') ('Hello W', 'o', 'rld') ('Hello World', '', '') ('', "
       "'', 'Hello World') World Hello Wor hELLO wORLD They'Re Bill'S axb"},
      {R"({{ 'ab'.center(7,'*') }}{{ 'ab'.center(6) }}|{{ 'abc'.center(6) }}|{{ 'ab'|center(7) }}|{{ 'ab'.ljust(4) }}|{{ 'ab'.rjust(4,'0') }}|{{ '-5'.zfill(4) }}|{{ 'a\tb'.expandtabs(4) }}|)",
       "***ab**  ab  | abc  |   ab  |ab  |00ab|-005|a   b|"},
      {"{{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ 'Ab'.islower() }} {{ "
       "'AB1'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'é'.isascii() }} {{ ''.isalpha() }} {{ '½'.isnumeric() }} {{ "
       "'²'.isdigit() }} {{ '²'.isdecimal() }}",
       "True True True True False True True False False True True False"},
      {R"({{ s|truncate(8) }} {{ s|truncate(5, true) }} {{ s|truncate(5,true,'..',0) }} {{ s|truncate(9, leeway=0) }} {{ s|wordcount }} {{ 'a\nb\n\nc'|indent }} {{ 'a\nb\n\nc'|indent(2, true, true) }} {{ 'a\nb'|indent('> ') }} {{ 'a b/c?&ü'|urlencode }} {{ {'a b':'c/d','e':1}|urlencode }})",
       "Hello World He... Hel.. Hello... 2 a\n    b\n\n    c   a\n  b\n  \n  c a\n> b a%20b/c%3F%26%C3%BC "
       "a+b=c%2Fd&e=1"},
      {"{{ a is defined }} {{ q is undefined }} {{ a is number }} {{ t is number }} {{ t is integer }} {{ a is integer "
       "}} {{ f is float }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is "
       "sequence }} {{ l is iterable }} {{ a is iterable }} {{ n is none }} {{ t is boolean }} {{ t is true }} {{ t is "
       "false }} {{ a is odd }} {{ a is even }} {{ a is divisibleby 5 }} {{ a is divisibleby(5) }} {{ a is eq 5 }} {{ "
       "a is lt 6 }} {{ a is in [5] }} {{ a is not in [5] }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ q is "
       "sequence }} {{ q is iterable }} {{ q is string }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is "
       "test }} {{ a is sameas a }} {{ a is not defined }} {{ not a is defined }} {{ l|map('upper') is sequence }} {{ "
       "d.items() is iterable }} {{ (1,2) is sequence }} {{ n is not none and true }} {{ a is eq(5) or false }} {{ a "
       "is greaterthan 4 }} {{ 1 is ne 2 }}",
       "True True True True False True True True True True True True True False True True True False True False True "
       "True True True True False True True True True False True True True True False False False True True False True "
       "True True"},
      {"{{ range(3)|list }} {{ range(1,7,2)|list }} {{ range(5,0,-2)|list }} {{ range(0)|list }} {{ dict(a=1, b='x') "
       "}} {{ dict({'q':1}, r=2) }} {{ range(3)|length }}",
       "[0, 1, 2] [1, 3, 5] [5, 3, 1] [] {'a': 1, 'b': 'x'} {'q': 1, 'r': 2} 3"},
      {"{{ users[0].name }} {{ users[0]['addr'].city }} {{ users|map(attribute='age')|list }} {{ users|first }} {{ "
       "(users|last).name }} {{ users|attr('x') is defined }} {{ d|attr('items') is callable }}",
       "Bo X [3, 3, 1] {'name': 'Bo', 'age': 3, 'addr': {'city': 'X'}} Cy False True"},
      {"{{ l|first + 1 }} {{ -l|length if false else 3 }} {{ not l|length }} {{ 1 + l|length * 2 }} {{ (l|length) }} "
       "{{ l|join(', ')|upper }}",
       "4 3 False 7 3 3, 1, 2"},
      {R"({{ u|tojson|length }} {{ 'ab\u2028'|tojson }} {{ '🙂'|tojson(ensure_ascii=true) }} {{ 'é\x7f'|tojson(ensure_ascii=true) }})",
       R"--(13 "ab " "\ud83d\ude42" "\u00e9\u007f")--"},
      {R"({{ [3,1,2]|sort|first }} {{ "a,b"|replace(",", ";")|upper }} {{ {'a':1}|length }} {{ d|length }} {{ undefinedvar|length }} {{ undefinedvar|list }} {{ undefinedvar|upper }}|{{ undefinedvar|trim }}|{{ undefinedvar|join }}|{{ undefinedvar ~ 'x' }})",
       "1 A;B 1 3 0 [] |||x"},
      {"{{ 'x'.upper().lower() }} {{ ('a' ~ 'b').upper() }} {{ 'a b'.split()[0] }} {{ s.split(' ')[-1].upper() }} {{ "
       "[1,2,3][:2] }} {{ {'a': 1}['a'] }} {{ (1, 2)[0] }}",
       "x AB a WORLD [1, 2] 1 1"},
      {"{{ l.index(2) }} {{ l.count(3) }} {{ (1,1).count(1) }} {{ d.copy() }}", "2 1 2 {'b': 1, 'A': 2, 'c': None}"},
      {"{{ [1]|join(1) }}", "1"},
      {"{{ {'a':1}|first }} {{ d|last }} {{ {'a':1}|max }}", "a c a"},
      {"{{ 'abc'|first }} {{ 'abc'|last }} {{ 'cab'|sort }} {{ 'cab'|max }} {{ 'aba'|unique|list }} {{ 'abc'|list }} "
       "{{ 'abc'|map('upper')|list }} {{ 'abc'|batch(2)|list }}",
       "a c ['a', 'b', 'c'] c ['a', 'b'] ['a', 'b', 'c'] ['A', 'B', 'C'] [['a', 'b'], ['c']]"},
      {"{{ 'a'|e ~ '<' }} {{ ('a'|e) + '<' }} {{ '%s' % ('<'|safe) }} {{ '<'|e|upper }}", "a< a&lt; < &LT;"},
      {"{{ 3.0 }} {{ 3.10 }} {{ 1e100 }} {{ 1e22 }} {{ 123456789012345680.0 }} {{ -0.0 }} {{ 5e-324 }} {{ 0.1 + 0.2 }} "
       "{{ 100000.0 * 10 }} {{ 1e3|int }}",
       "3.0 3.1 1e+100 1e+22 1.2345678901234568e+17 -0.0 5e-324 0.30000000000000004 1000000.0 1000"},
  });
}

// Python's repr of floats, by way of tojson and str.
TEST(JinjaFilters, Floats) {
  const struct {
    double number;
    const char* text;
  } cases[] = {{1e5, "100000.0"},       {0.1, "0.1"},    {1e16, "1e+16"},  {1e15, "1000000000000000.0"},
               {1e-7, "1e-07"},         {-0.0, "-0.0"},  {1e-4, "0.0001"}, {2e300, "2e+300"},
               {5e-324, "5e-324"},      {1e22, "1e+22"}, {1.5, "1.5"},     {1e21, "1e+21"},
               {123456.75, "123456.75"}};
  for (const auto& c : cases) {
    EXPECT_EQ(render("{{ x }}", {{"x", c.number}}), c.text);
    EXPECT_EQ(render("{{ [x]|tojson }}", {{"x", c.number}}), std::string("[") + c.text + "]");
  }
}

}  // namespace
}  // namespace kvasir::text::jinja
