// Parses and runs a declarative Jenkinsfile: each name that Groovy does not know is a step or a section, whose closure
// is run, and which prints a line of JSON with its name and its arguments. What "sh" answers is in the environment.
import groovy.json.JsonOutput
import org.codehaus.groovy.control.CompilerConfiguration

abstract class Pipeline extends Script {
    static final int STATUS = (System.getenv('STATUS') ?: '0') as int

    def methodMissing(String name, Object given) {
        List arguments = given as List
        List shown = arguments.findAll { !(it instanceof Closure) }.collect { it instanceof GString ? it.toString() : it }
        println JsonOutput.toJson([step: name, arguments: shown])
        arguments.findAll { it instanceof Closure }.each { Closure block ->
            block.delegate = this
            block.resolveStrategy = Closure.DELEGATE_FIRST
            try {
                block.call()
            } catch (IllegalStateException failed) {
                if (name != 'stages') { // what comes behind them runs all the same
                    throw failed
                }
            }
        }
        if (name == 'error') {
            throw new IllegalStateException(shown.first() as String)
        }
        Map named = shown ? (shown.first() instanceof Map ? shown.first() as Map : [:]) : [:]
        return named.returnStatus ? STATUS : [(name): named]
    }

    def propertyMissing(String name) { name }

    void propertyMissing(String name, Object value) {
        println JsonOutput.toJson([step: name, arguments: [value as String]])
    }
}

CompilerConfiguration configuration = new CompilerConfiguration()
configuration.scriptBaseClass = 'Pipeline'
Script script = new GroovyShell(Pipeline.classLoader, new Binding(), configuration).parse(new File(args[0]))
script.run()
