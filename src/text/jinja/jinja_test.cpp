// The language, against what the Jinja documentation says; all texts are what jinja2 3.1 renders with the settings of
// Hugging Face (trim_blocks, lstrip_blocks).
#include <thread>

#include "text/jinja/cases_fixture.hpp"

namespace kvasir::text::jinja {
namespace {

TEST(Jinja, Expressions) {
  check({
      {"{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 1 / 3 }} {{ 10 / 5 }} {{ 1e16 }} {{ 1e15 }} {{ "
       "0.0001 }} {{ 0.00001 }} {{ 1.5e300 }} {{ 123456789.123 }}",
       "3.0 -4.0 0.5 -0.5 0.3333333333333333 2.0 1e+16 1000000000000000.0 0.0001 1e-05 1.5e+300 123456789.123"},
      {"{{ 2**3**2 }} {{ -2**2 }} {{ 2 * 3 + 4 }} {{ 2 ~ 3 * 4 }} {{ 2 * 3 ~ 4 }} {{ 'a' + 1 ~ 2 }}",
       "64 4 10 212 64 a12"},
      {"{{ 'a' in 'abc' }} {{ 'x' not in l }} {{ 3 in l }} {{ 'b' in d }} {{ 'z' in undefinedvar }} {{ 1 in (1,2) }}",
       "True True True True False True"},
      {"{{ not true }} {{ not false and true }} {{ 0 or 'x' }} {{ 1 and 'y' }} {{ none or 0 or [] }} {{ '' and 1 }}",
       "False True x y [] "},
      {"{{ 'yes' if a == 5 else 'no' }} {{ 'yes' if a == 6 }} {{ 'a' if false else 'b' if false else 'c' }}", "yes  c"},
      {"{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-3] }} {{ s[::2] }} {{ u[3] }} {{ u[7:9] }} {{ u[-1] "
       "}} {{ u[::-1] }} {{ s[10:2:-3] }} {{ s[100:] }} {{ s[-100:3] }}",
       "H d ell dlroW olleH Hello Wo HloWrd i 你好 🙂 🙂 好你 hcirüZ doo  Hel"},
      {R"({{ l }} {{ d }} {{ big }} {{ (1,) }} {{ () }} {{ {} }} {{ [] }} {{ {'a':(1,'x')} }} {{ ['it\'s', "q\"", "b'\""] }} {{ ["\n\t\\\x01\u200b é"] }})",
       R"([3, 1, 2] {'b': 1, 'A': 2, 'c': None} [[1, 2], [3, 4]] (1,) () {} [] {'a': (1, 'x')} ["it's", 'q"', 'b\'"'] ['\n\t\\\x01\u200b é'])"},
      {"{{ none }} {{ true }} {{ f }} {{ 1.0 }} {{ undefinedvar }} {{ [undefinedvar] }} {{ [none, true, 1.0] }}",
       "None True 1.5 1.0  [Undefined] [None, True, 1.0]"},
      {"{# comment #}a{#- c -#} b {#+ c +#} c", "ab  c"},
      {"{{ l.append is defined }} {{ d.update is defined }} {{ s.append is defined }}", "True True False"},
      {R"({{ 'a' 'b' "c" }} {{ "\u00e9\x41\101\n\q" }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1e3 }} {{ 1.5e-3 }} {{ big[1].0 }} {{ big.1.1 }})",
       "abc \303\251AA\n\\q 31 5 15 1000 1000.0 0.0015 3 4"},
      {"{{ strftime_now('%Y-%m-%d %d %b %Y %B %H:%M:%S %A %a %j %p %I %y %-d %% %U %W %w %u %c %x %X %D %F %T %e') }}",
       "2026-07-26 26 Jul 2026 July 09:05:00 Sunday Sun 207 AM 09 26 26 % 30 29 0 7 Sun Jul 26 09:05:00 2026 07/26/26 "
       "09:05:00 07/26/26 2026-07-26 09:05:00 26"},
      {"{{ [1,2] + [3] }} {{ [0] * 3 }} {{ 'ab' * 2 }} {{ 2 * 'ab' }} {{ (1,) + (2,) }} {{ 'a' + 'b' ~ 1 ~ none }} {{ "
       "true + true }} {{ 'x' * -1 }}",
       "[1, 2, 3] [0, 0, 0] abab abab (1, 2) ab1None 2 "},
      {"{{ l is sameas l }} {{ [1,[2]] == [1,[2]] }} {{ {'a':1} == {'a':1.0} }} {{ {'a':1,'b':2} == {'b':2,'a':1} }} "
       "{{ 'a' == 1 }} {{ q == q }} {{ q == none }} {{ q == '' }} {{ q != 1 }}",
       "True True True True False True False False True"},
      {R"({{- "x" -}}   {{- "y" -}})", "xy"},
      {"{{ 10000000000 * 5 }} {{ 9223372036854775807 }} {{ 1 - 2 }} {{ 3 -1 }} {{ 3-1 }} {{ a -1 }} {{ 1.e }}",
       "50000000000 9223372036854775807 -1 2 2 4 "},
      {"{{ a is eq 5 is true }}", "True"},
      {"{{ none.x }}", ""},
      {"{{ {'a':1}.a }} {{ {'items': 3}['items'] }} {{ {'items': 3}.items is callable }} {{ {'get': 1}['get'] }}",
       "1 3 True 1"},
      {"{{ 5 is number and 6 is even }} {{ 'x' in ['x'] and not false }} {{ not 'x' in ['x'] }} {{ not not a }} {{ a "
       "if a else 1 }} {{ (a or 1) and (q or 2) }}",
       "True True False True 5 2"},
  });
}

// As Python does it, and as llama.cpp's templates expect; Hugging Face's sandbox refuses these.
TEST(Jinja, ListsAndDictsChange) {
  check({
      {"{% set ns = namespace(ids=[]) %}{% for i in range(3) %}{% set _ = ns.ids.append(i) %}{% endfor %}{{ ns.ids }}"
       "{{ ns.ids.pop(0) }}{{ ns.ids }}",
       "[0, 1, 2]0[1, 2]"},
      {"{% set a = [] %}{% for x in l %}{% do a.append(x) %}{% endfor %}{{ a }}{{ l }}", "[3, 1, 2][3, 1, 2]"},
      {"{% set a = [1] %}{% set b = a %}{% set c = a.copy() %}{% set e = a|list %}{% set f = a[:] %}{% do b.append(2) "
       "%}"
       "{{ a }}{{ b }}{{ c }}{{ e }}{{ f }}",
       "[1, 2][1, 2][1][1][1]"},
      {"{% macro add(to, x) %}{% do to.append(x) %}{% endmacro %}{% set a = [] %}{{ add(a, 5) }}{{ a }}", "[5]"},
      {"{% do l.extend([4, 5]) %}{% do l.insert(0, 9) %}{% do l.insert(-1, 8) %}{% do l.remove(1) %}{{ l }}"
       "{% do l.sort() %}{{ l }}{% do l.sort(reverse=true) %}{{ l }}{% do l.reverse() %}{{ l }}{{ l.pop() }}{{ "
       "l.pop(-2) }}"
       "{{ l }}{% do l.clear() %}{{ l }}",
       "[9, 3, 2, 4, 8, 5][2, 3, 4, 5, 8, 9][9, 8, 5, 4, 3, 2][2, 3, 4, 5, 8, 9]95[2, 3, 4, 8][]"},
      {"{% do l.extend(l) %}{{ l }}", "[3, 1, 2, 3, 1, 2]"},
      {"{% do d.update({'b': 5}, x=6) %}{{ d }}{{ d.pop('A') }}{{ d.pop('q', 7) }}{{ d.setdefault('x', 1) }}"
       "{{ d.setdefault('y', 2) }}{{ d.popitem() }}{{ d }}{% do d.update([('z', 1)]) %}{{ d.z }}{% do d.clear() %}{{ d "
       "}}",
       "{'b': 5, 'A': 2, 'c': None, 'x': 6}2762('y', 2){'b': 5, 'c': None, 'x': 6}1{}"},
      {"{% set ns = namespace() %}{% set ns['a b'] = 1 %}{% set ns[s] = 2 %}{{ ns['a b'] }}{{ ns[s] }}", "12"},
      {"{% set d['q'] = 1 %}{{ d.q }}", "1"},
      {"{% set ns = namespace(d={'x': [1, 2]}) %}{% set ns.d.x[0] = 7 %}{% set ns.d.y = 8 %}{% set ns['d']['z'] = 9 %}"
       "{{ ns.d }}",
       "{'x': [7, 2], 'y': 8, 'z': 9}"},
      {"{{ dict.fromkeys(['a', 'b'], 0) }}{{ dict.fromkeys('xy') }}{{ dict(a=1) }}",
       "{'a': 0, 'b': 0}{'x': None, 'y': None}{'a': 1}"},
      {"{% for x in l %}{{ x }}{% if loop.first %}{% do l.append(4) %}{% endif %}{% endfor %}", "3124"},
      {"{% for x in l %}{% do l.clear() %}{{ loop.nextitem is defined }}{{ loop.last }}{{ loop.revindex0 }}{% endfor "
       "%}",
       "FalseTrue0"},
      {"{% for x in l if l.pop() %}{{ x }}{% endfor %}", "31"},
      {"{% do l.append(l) %}{{ l|length }}{{ l[3][3][3][0] }}", "43"},
  });
  // Every list is empty when the next one takes it: nothing is deep but what all of them make.
  EXPECT_EQ(
      render("{% set ns = namespace(at=[]) %}{% set first = ns.at %}{% for i in range(20000) %}{% set next = [] %}"
             "{% do ns.at.append(next) %}{% set ns.at = next %}{% endfor %}{{ first|length }}"),
      "1");
}

TEST(Jinja, Statements) {
  check({
      {"{% for k, g in users|groupby('age') %}{{ k }}:{{ g|length }};{% endfor %}", "1:1;3:2;"},
      {"{% set x = 5 %}{{ x }}{% set x, y = 1, 2 %}{{ x }}{{ y }}{% set (p, q) = [3,4] %}{{ p }}{{ q }}", "51234"},
      {"{% set ns = namespace(n=0, l=[]) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] "
       "%}{% endfor %}{{ ns.n }}{{ ns.l }}{{ ns['n'] }}{{ ns }}{{ ns.zz is defined }}",
       "6[0, 1, 2, 3]6<Namespace {'n': 6, 'l': [0, 1, 2, 3]}>False"},
      {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ "
       "loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }}{{ "
       "loop.changed(x) }};{% endfor %}",
       "1032TrueFalse311aTrue;2121FalseFalse3132bTrue;3210FalseTrue311aTrue;"},
      {"{% for x in [] %}a{% else %}b{% endfor %}{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% else %}q{% endfor "
       "%}{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}",
       "b3222none"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in "
       "'añ🙂' "
       "%}[{{ c }}]{% endfor %}{% for a, (b, c) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
       "b=1,A=2,c=None,bAc[a][ñ][🙂]123"},
      {"{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% "
       "endfor %}",
       "0134"},
      {"{% for x in [1,[2,[3]]] recursive %}{% if x is sequence %}<{{ loop(x) }}>{% else %}{{ x }}{{ loop.depth }}{% "
       "endif %}{% endfor %}",
       "11<22<33>>"},
      {"{% set v = 1 %}{% for i in range(3) %}{% set v = v + 1 %}{{ v }}{% endfor %}{{ v }}{% if true %}{% set v = 9 "
       "%}{% endif %}{{ v }}",
       "22219"},
      {"{% for i in [1,2] %}{% for j in [3,4] %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor "
       "%}",
       "113 214 1123 224 2"},
      {"{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='q') }}{{ "
       "m(b=1, a=0) }}{{ m() }}{{ m }}{{ m.name }}{{ m.arguments }}",
       "12x13x12q01x2x<Macro 'm'>m('a', 'b', 'c')"},
      {"{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, x=3) }}{{ v() }}", "(1, 2){'x': 3}(){}"},
      {"{% macro outer() %}[{{ caller() }}]{% endmacro %}{% call outer() %}hi {{ a }}{% endcall %}", "[hi 5]"},
      {"{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) "
       "each(l) %}<{{ x }}:{{ i }}>{% endcall %}",
       "<3:1><1:2><2:3>"},
      {"{% macro fact(n) %}{% if n < 2 %}1{% else %}{{ n * (fact(n - 1)|int) }}{% endif %}{% endmacro %}{{ fact(6) }}",
       "720"},
      {"{% set g = 1 %}{% macro mg() %}{{ g }}{% endmacro %}{{ mg() }}{% set g = 2 %}{{ mg() }}", "12"},
      {"{% macro late() %}{{ later }}{% endmacro %}{{ late() }}{% set later = 'L' %}{{ late() }}", "L"},
      {"{% macro d2(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ d2(4) }}", "44"},
      {"{% set blk %}a {{ a }} b{% endset %}{{ blk }}{{ blk|length }}{% set up | upper %}abc{% endset %}{{ up }}{% set "
       "up2 | replace('a','b') | upper %}abc{% endset %}{{ up2 }}",
       "a 5 b5ABCBBC"},
      {"{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a','x') | upper %}banana{% endfilter %}",
       "ABC HELLO WORLDBXNXNX"},
      {"{% with x = 1, y = 2 %}{{ x }}{{ y }}{% set z = 3 %}{{ z }}{% endwith %}{{ z is defined }}{% with %}{% set "
       "zz=1 %}{{ zz }}{% endwith %}",
       "123False1"},
      {"{% generation %}hello {{ a }}{% endgeneration %}", "hello 5"},
      {"{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  y {% endraw -%}  z", "{{ x }} {% if %}|y z"},
      {"{{ cycler('a','b').next() }}{% set c = cycler(1,2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current "
       "}}{% set j = joiner('|') %}{{ j() }}{{ j() }}",
       "a1212|"},
      {"{% if a == 1 %}x{% elif a == 5 %}y{% else %}z{% endif %}{% if none %}{% elif '' %}{% endif %}{% if q %}q{% "
       "endif %}{% if e %}e{% endif %}{% if 'x' and l %}ok{% endif %}",
       "yok"},
      {"{{ loop is defined }} {% for i in [1] %}{{ loop is defined }}{{ loop }}{% endfor %}",
       "False True<LoopContext 1/1>"},
      {"{% set x = namespace() %}{% set x.y = 1 %}{{ x.y }}{% set x.z = x.y + 1 %}{{ x.z }}", "12"},
      {"{% for x in l -%} {{ x }} {%- endfor %}!", "312!"},
      {R"({% for x in l|sort %}{{ x }}{{ "," if not loop.last }}{% endfor %}{{ "-" if false }})", "1,2,3"},
      {"{% macro w() -%} x {%- endmacro %}[{{ w() }}]", "[x]"},
      {"{% for item in d|dictsort %}{{ item[0] }}{{ item.1 }}{% endfor %}", "A2b1cNone"},
      {"{% for i in range(3) %}{% set outer_loop = loop %}{% for j in range(2) %}{{ outer_loop.index }}{{ loop.index "
       "}} {% endfor %}{% endfor %}",
       "11 12 21 22 31 32 "},
      {"{% macro a1(x) %}{% set r = x * 2 %}{{ r }}{% endmacro %}{% set r = 1 %}{{ a1(4) }}{{ r }}", "81"},
      {"{% print(a, 1) %}{% print a %}", "(5, 1)5"},
      {"{% set q = {'k': [1, {'z': 'y'}]} %}{{ q.k[1].z }}{{ q['k'][0] }}", "y1"},
      {"{% if s is string and s is not mapping %}1{% endif %}{% if not (a is string) %}2{% endif %}{% if a is not "
       "string and true %}3{% endif %}",
       "123"},
      {"{% if false %}{{ 'x'|nofilter }}{% endif %}ok", "ok"},
      {"{% set gen = l|map('string') %}{{ gen|first }}{{ gen|first }}{{ gen|list }}{{ gen|list }}", "31['2'][]"},
      {"{%- set x -%}  hi  {%- endset -%}[{{ x }}]", "[hi]"},
      {"{% for k, v in {'a': {'b': 1}}.items() recursive %}{{ k }}{% if v is mapping %}({{ loop(v.items()) }}){% endif "
       "%}{% endfor %}",
       "a(b)"},
  });
}

TEST(Jinja, WhiteSpace) {
  check({
      {"a\n", "a"},
      {"a\n\n", "a\n"},
      {"\na", "\na"},
      {"  {% if true %}\n  x\n  {% endif %}\n  y", "  x\n  y"},
      {"  {%+ if true %}\n  x\n  {%- endif +%}\n  y", "    x\n  y"},
      {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
      {"  {{ 1 }}\n  {{ 2 }}\n", "  1\n  2"},
      {"{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\n", "  1\n  2\n"},
      {"  {# c #}\n  x {# d #}\n y", "  x  y"},
      {"a {% if true %} b\n{% endif %}\nc", "a  b\nc"},
      {"{% if true %}\n\n\nx{% endif %}", "\n\nx"},
      {"\t {% set x = 1 %}\t\n{{ x }}", "\t\n1"},
      {"a\r\n{% if true %}\r\nb\r{% endif %}c\r\n", "a\nb\nc"},
      {"{%- if true %}x{% endif -%}\n\n y", "xy"},
      {"x {%- raw %} {{ a }} {% endraw -%} y", "x {{ a }} y"},
      {"  {% raw %}\n z {% endraw %}\n w", "\n z  w"},
      {"{{ 1 }}\n{% if true %}{% endif %}\n{{ 2 }}\n\n", "1\n2\n"},
      {"x\n   {%- if true %}y{% endif %}", "xy"},
      {"{{ 'a' }}  \n  {{- 'b' -}}  \n c", "abc"},
      {"{#- x -#}  y", "y"},
      {"a\n  {#- x #}\n b", "a b"},
      {"{% if true -%}\n   a\n   {% else -%}\n b{% endif %}\n c", "a\n c"},
      {"{{+ 1 }}{{-1}} {{- 1 }}", "111"},
      {"{%if true%}a{%endif%}", "a"},
      {"{%- macro f() %}\n  q\n{%- endmacro %}\n{{ f() }}", "  q"},
      {"  {%- set a = 1 %}  b", "  b"},
      {"line {{ 'x\ny' }}\n  {% if true %}z{% endif %}", "line x\ny\nz"},
      {"x{% if true %}   \n{% endif %}y", "x   \ny"},
      {"{{ {'a':{'b':1}} }}{{ {'a':{'b':1}}['a'] }}", "{'a': {'b': 1}}{'b': 1}"},
      {"{{ '}}' }}{% if '%}' %}a{% endif %}", "}}a"},
      {"\302\240{%- if true %}a{% endif %}\343\200\200{%- if true %}b{% endif %}", "ab"},
      {"{% if true %}\n{% if true %}\n a\n {% endif %}\n{% endif %}\n b", " a\n b"},
      {"{%- for m in [1,2] %}\n    {%- if m == 1 %}\n        {{- 'one\n' }}\n    {%- else %}\n        {{- 'two' }}\n   "
       " {%- endif %}\n{%- endfor %}\n",
       "one\ntwo"},
  });
}

// What Python or Jinja refuse; the message names the line.
TEST(Jinja, Errors) {
  const struct {
    const char* source;
    const char* message;
  } cases[] = {
      {"{{ raise_exception('boom') }}", "line 1: boom"},
      {"a\n\n{{ undefinedvar.x }}", "line 3: 'undefinedvar' is undefined"},
      {"{{ undefinedvar + 1 }}", "'undefinedvar' is undefined"},
      {"{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"},
      {"{{ 'a' + 1 }}", "can only concatenate str (not \"int\") to str"},
      {"{{ none + 'a' }}", "unsupported operand type(s) for +: 'NoneType' and 'str'"},
      {"{{ nofn() }}", "'nofn' is undefined"},
      {"{{ 'x'|nofilter }}", "no filter named 'nofilter'"},
      {"{{ 'x' is notest }}", "no test named 'notest'"},
      {"{{ 1 / 0 }}", "division by zero"},
      {"{{ 9223372036854775807 + 1 }}", "limited to 64 bits"},
      {"{{ 'a' < 1 }}", "'<' not supported between instances of 'str' and 'int'"},
      {"{{ none|length }}", "object of type 'NoneType' has no len()"},
      {"{% for x in 5 %}{% endfor %}", "'int' object is not iterable"},
      {"{% set l.x = 1 %}", "'l' is no namespace"},
      {"{{ (1, 2).append(1) }}", "'tuple object' has no attribute 'append'"},
      {"{{ [].pop() }}", "pop from empty list"},
      {"{{ l.pop(9) }}", "pop index out of range"},
      {"{{ d.pop('q') }}", "'q'"},
      {"{{ l.remove(9) }}", "x not in list"},
      {"{% set l[7] = 1 %}", "list assignment index out of range"},
      {"{% set l[1:2] = 1 %}", "cannot assign to a slice"},
      {"{% set s['a'] = 1 %}", "'str' object does not support item assignment"},
      {"{% set d[[1]] = 1 %}", "unhashable type: 'list'"},
      {"{% do l.append(l) %}{{ l }}", "contains itself"},
      {"{% do l.append(l) %}{{ l|tojson }}", "nested"},
      {"{% set a, b = [[]], [[]] %}{% do a[0].append(a) %}{% do b[0].append(b) %}{{ a == b }}", "nested"},
      {"{{ undefinedvar|tojson }}", "Object of type Undefined is not JSON serializable"},
      {"{{ l|map('upper') }}", "a generator cannot be printed"},
      {"{{ {[1]: 2} }}", "unhashable type: 'list'"},
      {"{{ 1 in 'abc' }}", "'in <string>' requires string as left operand, not int"},
      {"{% if %}{% endif %}", "expected an expression, found '%}'"},
      {"{{ a", "'{{' is not closed"},
      {"{# a", "the comment is not closed"},
      {"{% raw %}", "the raw block is not closed"},
      {"{% for x in l %}\n", "expected '{% endfor %}', found the end of the template"},
      {"{% foo %}", "unknown tag 'foo'"},
      {"{% include 'x' %}", "'include' is not available"},
      {"{{ a b }}", "expected '}}', found 'b'"},
      {"{{ 'abc }}", "the string is not closed"},
      {"{{ (1 }}", "unexpected '}', expected ')'"},
      {"{% set true = 1 %}", "cannot assign to 'true'"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "a parameter without default follows one with a default"},
      {"{% break %}", "'break' outside of a loop"},
      {"{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "'break' outside of a loop"},
      {"{% macro mm(x) %}{% endmacro %}{{ mm(1, 2) }}", "macro 'mm' takes not more than 1 argument(s)"},
      {"{% macro mm(x) %}{% endmacro %}{{ mm(y=2) }}", "macro 'mm' takes no keyword argument 'y'"},
      {"{{ s.nomethod() }}", "'str object' has no attribute 'nomethod'"},
      {"{{ d.nokey() }}", "'dict object' has no attribute 'nokey'"},
      {"{{ users[9].name }}", "list object has no element 9"},
      {"{% set a, b = [1, 2, 3] %}", "3 values to unpack, expected 2"},
      {"{{ '\\ud83d' }}", "no character"},
      {"a\xff", "not well-formed UTF-8"},
  };
  for (const auto& c : cases) {
    try {
      ADD_FAILURE() << c.source << " gave " << render(c.source);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kBadInput);
      EXPECT_EQ(e.context().rfind("chat template, line ", 0), 0u) << e.what();
      EXPECT_NE(std::string(e.what()).find(c.message), std::string::npos) << c.source << ": " << e.what();
    }
  }
}

std::string message_of(const std::string& source, const RenderOptions& options = {}) {
  try {
    Template(source).render(context(), options);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

std::string times(int n, const std::string& text) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// Hostile templates end in an Error soon, whatever they do.
TEST(Jinja, Limits) {
  const std::string forever = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
  EXPECT_NE(message_of(forever).find("nested more than"), std::string::npos);
  EXPECT_NE(message_of("{{ " + times(5000, "(") + "1" + times(5000, ")") + " }}").find("nested"), std::string::npos);
  EXPECT_NE(message_of("{{ " + times(5000, "not ") + "1 }}").find("nested"), std::string::npos);
  EXPECT_NE(message_of("{{ 1" + times(5000, "|abs") + " }}").find("nested"), std::string::npos);
  EXPECT_NE(message_of("{{ a" + times(5000, ".b") + " }}").find("nested"), std::string::npos);
  EXPECT_NE(message_of(times(5000, "{% if 1 %}") + times(5000, "{% endif %}")).find("nested"), std::string::npos);
  EXPECT_EQ(render("{{ 1" + times(5000, " + 1") + " }}"), "5001");  // a long sum is not deep
  const std::string loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
  EXPECT_NE(message_of(loops).find("the template"), std::string::npos);
  EXPECT_NE(message_of("{{ 'x' * 99999999999 }}").find("MiB"), std::string::npos);
  EXPECT_NE(
      message_of("{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}")
          .find("MiB"),
      std::string::npos);
  const std::string doubled =
      "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}";
  EXPECT_NE(message_of(doubled + "{{ ns.s|tojson }}").find("the template"), std::string::npos);
  EXPECT_NE(message_of(doubled + "{{ ns.s == [ns.s, ns.s] }}{{ ns.s }}").find("the template"), std::string::npos);
  const std::string nested =
      "{% set ns = namespace(s=[1]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}";
  EXPECT_NE(message_of(nested).find("nested more than"), std::string::npos);
  EXPECT_NE(message_of("{% set ns = namespace() %}{% set ns.s = ns %}{{ ns }}").find("contains itself"),
            std::string::npos);
  EXPECT_NE(message_of("{{ '%999999999d' % 1 }}").find("limited"), std::string::npos);
  EXPECT_NE(message_of("{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}").find("MiB"), std::string::npos);
  EXPECT_NE(message_of("{{ range(100001) }}").find("more than 100000 items"), std::string::npos);
  RenderOptions small;
  small.limits.output = 100;
  EXPECT_NE(message_of("{% for i in range(101) %}x{% endfor %}", small).find("MiB"), std::string::npos);
}

// A macro and a loop may be called after the block in which they were made has ended.
TEST(Jinja, ClosuresOutliveTheirBlocks) {
  check({{"{% set ns = namespace() %}{% for i in [7, 8] %}{% macro m() %}{{ i }}{% endmacro %}{% if i == 7 %}"
          "{% set ns.m = m %}{% endif %}{% endfor %}{% for j in [1, 2] %}{% set i = j %}{{ ns.m() }}{% endfor %}",
          "77"},
         {"{% set ns = namespace() %}{% for x in [1] recursive %}{{ x }}{% set ns.l = loop %}{% endfor %}"
          "{{ ns.l([5, 6]) }}{{ ns.l.index }}",
          "1562"}});
}

// The variables' text never becomes template.
TEST(Jinja, VariablesAreData) {
  EXPECT_EQ(render("{{ x }}{{ y }}", {{"x", "{{ 1 + 1 }}{% raw %}"}, {"y", "<&>"}}), "{{ 1 + 1 }}{% raw %}<&>");
  EXPECT_THROW(render("{{ x }}", {{"x", std::string("\xc3")}}), Error);
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THROW(render("{{ x }}", {{"x", deep}}), Error);
}

TEST(Jinja, ManyThreadsRenderOneTemplate) {
  const Template t("{% for x in l|sort %}{{ x ~ s }}{% endfor %}{{ d|tojson }}{{ 'abc'|upper }}");
  const std::string expected = t.render(context());
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (std::size_t k = 0; k < equal.size(); ++k) {
    threads.emplace_back([&, k] {
      for (int i = 0; i < 200; ++i) equal[k] += t.render(context()) == expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 200));
}

}  // namespace
}  // namespace kvasir::text::jinja
